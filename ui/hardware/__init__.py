"""Devices on the command line: `offpeak power`, `enroll`, `check` and `virtual`.

`command.py` declares the commands and their options; it imports only light modules, because `--help` imports it.
Each `*_answer.py` does the work of one command and prints its result; the command imports it when it runs.
"""

"""Devices on the command line: `offpeak power`, `enroll`, `check` and `virtual`.

`command.py` declares the commands and their options; it imports only light modules, because `--help` imports it.
The module with a command's name does its work and prints the result; the command imports it when it runs.
"""

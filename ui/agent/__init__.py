"""The agent on the command line: `offpeak agent`, `page`, `status`, `queue`, `why` and `history`.

`command.py` declares the commands and stays light. `answer.py` prints what the agent reports,
`ledger_answer.py` prints the history and the on/off days.
"""

"""`offpeak ledger`: the records of the ledger, and its care.

`command` parses, `answer` reads the ledger and prints; `text` renders records as tables, JSON and CSV.
"""

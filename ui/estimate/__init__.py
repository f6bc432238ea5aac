"""`offpeak estimate`: what pays on a cluster by its own log, and what is recommended.

`command` parses, `answer` replays, prints and writes the page, `text` has the sentences; `accounting_source` finds the
accounting, also for other commands.
"""

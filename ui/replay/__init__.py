"""`offpeak simulate`, `study` and `generate`.

`command` parses; `simulate_answer` replays a log, `comparison` and `tables` show its result and the tables of a study.
"""

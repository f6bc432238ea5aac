"""`offpeak simulate`, `whatif`, `study` and `generate`.

`command` parses; `simulate_answer` replays a log, `comparison` and `policy_tables` show its result, `whatif`
shows a what-if, and `report_tables` prints the tables of a study.
"""

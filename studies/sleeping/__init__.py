"""Which rule for sleeping nodes? No paper's experiment: energy, boot delays and power cycles of all rules at once.

`run` says what is varied and replays one experiment, `tables` and `figure` show the results, `study` is the
entry.
"""

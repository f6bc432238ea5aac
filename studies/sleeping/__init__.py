"""Which rule for sleeping nodes? An experiment of our own: energy, boot delays and power cycles of all rules at once.

`run` says what is varied and replays one experiment; `study` is the entry, with tables and figure.
"""

"""Which rule for sleeping nodes? An experiment of our own: energy, boot delays and power cycles of all rules at once.

`run` holds the varied parameters and replays one experiment; `study` is the entry, with tables and figure.
"""

"""Does it pay to offer fewer nodes in on-peak hours? An experiment of our own with the profile policy.

`run` holds the varied parameters and replays one experiment on prices of a file; `study` is the entry, with tables and
figure.
"""

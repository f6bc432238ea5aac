"""Does it pay to offer fewer nodes in on-peak hours? No paper's experiment: our own question to the profile policy.

`run` says what is varied and replays one experiment on prices of a file, `report` holds tables and figure,
`study` is the entry.
"""

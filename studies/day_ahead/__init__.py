"""Murali and Vadhiyar 2018: a grid of supercomputers in day-ahead electricity markets.

`experiment` says what is varied and what the paper prints, `plan` which cases are run, `xsede` draws the grid of
eight systems, `prices` reads and forecasts prices of 2014, `run` replays one experiment, `tables` and `figures`
show the results, `study` is the entry. The part NorduGrid has `nordugrid` (grid, zones, run) and
`nordugrid_study`.
"""

"""Murali and Vadhiyar 2018: a grid of supercomputers in day-ahead electricity markets.

The part XSEDE: `inputs` (prices of 2014, their forecasts, and drawn jobs), `run` (the grid of eight systems and one
experiment), `tables` (the cases and the paper's figures) and `study`, the entry. The part NorduGrid: `nordugrid` (grid,
zones and run) and `nordugrid_study`, the entry.
"""

"""Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing".

The part single-site: `paper` (published figures), `run` (one experiment) and `single_site`, the entry, with the cases
and the tables. The part federation: `federation` runs one experiment on the three simulated clusters or on
the testbed's three; `federation_study` has the cases, the tables, the figure and the entry.
"""

"""Majanen, Mämmelä and Giesler, "Energy and Carbon Aware Scheduling in Supercomputing".

The part single-site: `experiment`, `paper` (published figures), `plan`, `workload`, `run` (one experiment),
`tables`, `figures` and `single_site`, the entry. The part federation: `federation` runs one experiment on the
three simulated clusters and on the testbed's three, `federation_tables` shows the results, `federation_study` is
the entry.
"""

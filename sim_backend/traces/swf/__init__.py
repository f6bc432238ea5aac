"""The Standard Workload Format (Feitelson): its header, its lines, and what its fields mean.

`read` and `write` are the entries; `lines` checks and parses the job lines of a text.
"""

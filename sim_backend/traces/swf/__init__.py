"""The Standard Workload Format (Feitelson): its header, its lines, and the meaning of its fields.

`read` and `write` are the entries; `lines` checks and parses the job lines of a text.
"""

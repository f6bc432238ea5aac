"""Generators of logs, seeded.

`generate` is the entry: it draws arrivals, sizes and run times (`lublin_model`), users, power, and limits, also as
users choose them (`tsafrir`).
"""

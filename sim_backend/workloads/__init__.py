"""Generators of logs, seeded.

`generate` is the entry: it draws arrivals, sizes and run times (`lublin_model`), users, limits and power (`users`), or
limits as users choose them (`tsafrir`).
"""

"""Generators of logs and prices, seeded.

`generate` is the entry: it draws arrivals, sizes and run times (`lublin_model`), users, limits and power (`users`), or
limits as users choose them (`tsafrir`). `price_model` generates a year of prices.
"""

"""Generators of logs and prices, seeded."""

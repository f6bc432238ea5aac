"""A scheduler in memory, stepped by a clock: for demonstrations and tests."""

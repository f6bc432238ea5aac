"""Benchmarks: each measures one claim of the documentation."""

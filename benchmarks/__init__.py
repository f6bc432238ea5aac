"""Benchmarks: each measures one claim of the documentation.

`sample` generates the bundled sample, and `demo_slurm` is the demo on a real Slurm: both need a clone of the
repository.
"""

"""Slurm, asked by its own commands."""

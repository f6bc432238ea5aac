"""OpenPBS, asked by its own commands."""

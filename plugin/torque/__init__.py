"""Torque 4.2 to 6.1, asked by its own commands."""

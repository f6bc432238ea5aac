"""Murali and Vadhiyar 2018: a grid of supercomputers in day-ahead electricity markets."""

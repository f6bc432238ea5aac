"""Torque and OpenPBS, read from the files that their servers keep."""

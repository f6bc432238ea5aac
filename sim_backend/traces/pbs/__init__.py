"""Accounting logs of Torque and OpenPBS."""

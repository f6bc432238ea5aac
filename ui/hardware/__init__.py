"""Devices: `offpeak power`, `enroll`, `check` and the virtual ones."""

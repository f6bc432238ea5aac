"""What is replayed: `offpeak simulate`, `whatif`, `study` and `generate`."""

"""`offpeak forecast` and `score`."""

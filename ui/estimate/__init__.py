"""`offpeak estimate`."""

"""`offpeak plan`."""

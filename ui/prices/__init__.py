"""`offpeak prices`."""

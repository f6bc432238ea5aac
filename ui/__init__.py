"""What people touch: the `offpeak` command and its tables."""

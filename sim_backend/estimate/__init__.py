"""What a cluster used over the time of its own log, and what offpeak would have saved."""

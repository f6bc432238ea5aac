"""The scheduler as the agent sees it: jobs, nodes and reservations as values, and one port for all schedulers."""

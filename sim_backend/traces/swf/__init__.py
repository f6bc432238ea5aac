"""The Standard Workload Format: its header, its lines, and what its fields mean."""

"""The Grid Workload Format: its lines, and what its fields mean."""

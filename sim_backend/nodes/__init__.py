"""What nodes did in a replay: their states over time, their energy, and what sleeping cost the jobs."""

"""What is asked of the agent: its state, why a job waits, the planned queue, its past."""

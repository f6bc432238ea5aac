"""The agent: the loops of queue and power in one process, and what surrounds them."""

"""The scheduler's side: the policies that reorder a queue."""

"""What the agent books: readings of all meters, what jobs used and cost, prices, and what sleeping nodes saved."""

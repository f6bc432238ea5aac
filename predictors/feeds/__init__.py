"""Where known prices, carbon intensity and outside temperature come from, and what holds when they do not come."""

"""How much better than a time-out a rule for sleeping nodes can be: bounds, and learned rules in the real engine."""

"""Which rule for sleeping nodes? No paper's experiment: energy, boot delays and power cycles of all rules at once."""

"""The ground: the words that every room uses (jobs, prices, power, settings, errors)."""

"""The power agent: the what-if that says how many nodes may sleep, and what acts on its answer."""

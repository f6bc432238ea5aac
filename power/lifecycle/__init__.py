"""The life of a node: what is wanted of it, what is seen of it, and what is done about the difference."""

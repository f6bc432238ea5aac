"""The live queue: in which order the pending jobs stand, and which of them wait for a cheaper hour. Pure decisions."""

"""The live broker: asks the sites of a federation how they are, and submits jobs to the one that was chosen."""

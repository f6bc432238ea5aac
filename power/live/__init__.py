"""The power loop on a live scheduler: who sleeps and who wakes, and the next step towards it. Pure decisions."""

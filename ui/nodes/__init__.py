"""Nodes and what is ordered of them: `offpeak nodes` and `offpeak node`."""

"""The ways to switch a node and to learn whether it is on: one file each, behind one port."""

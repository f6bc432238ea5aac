"""The ways to learn what machines draw: one file each, behind one port."""

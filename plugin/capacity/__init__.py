"""Capacity policies: which nodes stay awake, which sleep and how deeply, as pure decisions."""

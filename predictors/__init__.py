"""Predictions that the policies use."""

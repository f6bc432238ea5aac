"""Predictions of what a job will draw per allocated unit [W]."""

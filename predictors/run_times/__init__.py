"""Predictions of how long a job will run [s]."""

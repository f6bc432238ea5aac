"""Scores of all predictors, side by side: on price files and on job logs."""

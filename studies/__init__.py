"""The published experiments, re-run: one room per paper."""

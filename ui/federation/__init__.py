"""Many clusters: `offpeak choose`, `submit`, `snapshot` and `broker`."""

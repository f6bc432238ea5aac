"""Job logs in and schedules out."""

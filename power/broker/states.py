"""What may have become of a job that is handed over, as the ledger keeps it."""

TRIED, TAKEN, FAILED, CANCELLED = "tried", "taken", "failed", "cancelled"

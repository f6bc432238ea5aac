"""The ledger: every decision, action, state, reading, price and cost, in SQLite or PostgreSQL."""

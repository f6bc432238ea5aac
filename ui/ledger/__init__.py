"""What the ledger has written down, and its care: `offpeak ledger`."""

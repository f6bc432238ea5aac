"""How the ledger of an older program becomes that of this one, a step a file in `versions`; Alembic runs them."""

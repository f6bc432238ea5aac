"""Marks of changes of jobs, small states that survive a restart, and an index of decisions by subject."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make two tables, and an index on one that is there."""
    keys = (("job", sa.Text()), ("submitted_unix_s", sa.Float(53)), ("kind", sa.Text()))
    marks = [sa.Column(name, kind, primary_key=True) for name, kind in keys]
    marks += [sa.Column(name, sa.BigInteger(), nullable=False) for name in ("was", "to")]
    op.create_table("marks", *marks, sa.Column("at_unix_s", sa.Float(53), nullable=False))
    text = sa.Column("text", sa.Text(), nullable=False)
    at = sa.Column("at_unix_s", sa.Float(53), nullable=False)
    op.create_table("memory", sa.Column("name", sa.Text(), primary_key=True), text, at)
    op.create_index("decisions_by_subject", "decisions", ["subject", "at_unix_s"])

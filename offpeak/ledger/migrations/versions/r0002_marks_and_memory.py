"""Marks of changes of jobs, small states that survive a restart, and an index of decisions by subject."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make two tables, and an index on one that is there."""
    _marks()
    _memory()
    op.create_index("decisions_by_subject", "decisions", ["subject", "at_unix_s"])


def _marks() -> None:
    op.create_table(
        "marks",
        sa.Column("job", sa.Text(), primary_key=True),
        sa.Column("submitted_unix_s", sa.Float(53), primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("was", sa.BigInteger(), nullable=False),
        sa.Column("to", sa.BigInteger(), nullable=False),
        sa.Column("at_unix_s", sa.Float(53), nullable=False),
    )


def _memory() -> None:
    op.create_table(
        "memory",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at_unix_s", sa.Float(53), nullable=False),
    )

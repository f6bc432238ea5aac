"""Jobs that a replay can use, savings by lever with their range, drawn days of a trial, and the seals of each day."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add columns to two tables, and make two."""
    of_jobs: tuple[sa.Column[Any], ...] = (
        sa.Column("submitted_unix_s", sa.Float(53)),
        sa.Column("limit_s", sa.Float(53)),
        sa.Column("node_count", sa.Integer()),
        sa.Column("cpus", sa.Integer()),
    )
    of_savings: tuple[sa.Column[Any], ...] = (
        sa.Column("lever", sa.Text(), nullable=False, server_default="sleep"),
        sa.Column("is_shadow", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("low_cost", sa.Float(53)),
        sa.Column("high_cost", sa.Float(53)),
        sa.Column("saved_carbon_g", sa.Float(53)),
        sa.Column("measured_share", sa.Float(53)),
        sa.Column("node_hours", sa.Float(53)),
        sa.Column("delayed_jobs", sa.Integer()),
        sa.Column("delay_s", sa.Float(53)),
    )
    for name, columns in (("jobs", of_jobs), ("savings", of_savings)):
        for column in columns:
            op.add_column(name, column)
    _trial_days()
    _seals()


def _trial_days() -> None:
    op.create_table(
        "trial_days",
        sa.Column("trial", sa.Text(), primary_key=True),
        sa.Column("lever", sa.Text(), primary_key=True),
        sa.Column("partition", sa.Text(), primary_key=True),
        sa.Column("from_unix_s", sa.Float(53), primary_key=True),
        sa.Column("until_unix_s", sa.Float(53), nullable=False),
        sa.Column("is_on", sa.Integer(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("drawn_unix_s", sa.Float(53), nullable=False),
    )


def _seals() -> None:
    op.create_table(
        "seals",
        sa.Column("until_unix_s", sa.Float(53), primary_key=True),
        sa.Column("sealed_unix_s", sa.Float(53), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
    )

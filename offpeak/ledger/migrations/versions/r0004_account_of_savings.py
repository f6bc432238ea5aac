"""Jobs that a replay can use, savings by lever with their range, when a price was known, trial days, and seals."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add columns to three tables, and make two."""
    of_jobs: list[sa.Column[Any]] = [sa.Column(name, sa.Float(53)) for name in ("submitted_unix_s", "limit_s")]
    of_jobs += [sa.Column(name, sa.Integer()) for name in ("node_count", "cpus")]
    of_savings: list[sa.Column[Any]] = [sa.Column("lever", sa.Text(), nullable=False, server_default="sleep")]
    of_savings.append(sa.Column("is_shadow", sa.Integer(), nullable=False, server_default="0"))
    figures = ("low_cost", "high_cost", "saved_carbon_g", "measured_share", "node_hours")
    of_savings += [sa.Column(name, sa.Float(53)) for name in figures]
    of_savings += [sa.Column("delayed_jobs", sa.Integer()), sa.Column("delay_s", sa.Float(53))]
    for name, columns in (("jobs", of_jobs), ("savings", of_savings)):
        for column in columns:
            op.add_column(name, column)
    op.add_column("prices", sa.Column("known_unix_s", sa.Float(53)))
    keys = [sa.Column(name, sa.Text(), primary_key=True) for name in ("trial", "lever", "partition")]
    begin = sa.Column("from_unix_s", sa.Float(53), primary_key=True)
    is_on, seed = sa.Column("is_on", sa.Integer(), nullable=False), sa.Column("seed", sa.Text(), nullable=False)
    op.create_table("trial_days", *keys, begin, *_numbers("until", "drawn"), is_on, seed)
    key = sa.Column("until_unix_s", sa.Float(53), primary_key=True)
    texts = [sa.Column(name, sa.Text(), nullable=False) for name in ("previous", "digest")]
    rows = sa.Column("rows", sa.BigInteger(), nullable=False)
    of_tables = sa.Column("tables", sa.JSON(), nullable=False)
    op.create_table("seals", key, *_numbers("from", "sealed"), *texts, rows, of_tables)


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(f"{name}_unix_s", sa.Float(53), nullable=False) for name in names]

"""In PostgreSQL a partition for each month of minutes and quarter-hours. SQLite has none, and nothing to do."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make each table with its rows the first partition of a new one; the server reads the rows once to check them."""
    for name in _tables():
        last_unix_s = op.get_bind().execute(sa.text(f"SELECT max(at_unix_s) FROM {name}")).scalar()
        month = datetime.fromtimestamp(last_unix_s or 0, UTC).replace(day=1, hour=0, minute=0, second=0)
        old = f"{name}_until_{month:%Y_%m}"
        _replace(name, old, "PARTITION BY RANGE (at_unix_s)")
        end_s = int((month + timedelta(32)).replace(day=1).timestamp())
        if last_unix_s is None:
            op.drop_table(old)
        else:
            op.execute(f"ALTER TABLE {name} ATTACH PARTITION {old} FOR VALUES FROM (MINVALUE) TO ({end_s})")


def downgrade() -> None:
    """Copy all rows into tables without partitions."""
    for name in _tables():
        _replace(name, f"{name}_by_month")
        op.execute(f"INSERT INTO {name} SELECT * FROM {name}_by_month")
        op.drop_table(f"{name}_by_month")


def _tables() -> tuple[str, ...]:
    return ("minutes", "quarters") if op.get_bind().dialect.name == "postgresql" else ()


def _replace(name: str, old: str, end: str = "") -> None:
    op.rename_table(name, old)
    foreign_key = "FOREIGN KEY (series) REFERENCES series (number)"
    op.execute(f"CREATE TABLE {name} (LIKE {old} INCLUDING ALL, {foreign_key}) {end}")

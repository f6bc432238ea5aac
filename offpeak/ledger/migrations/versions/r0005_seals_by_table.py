"""When a price was known, and seals by table."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column, and make the table of seals again, which no program has filled."""
    op.add_column("prices", sa.Column("known_unix_s", sa.Float(53)))
    op.drop_table("seals")
    numbers = [sa.Column(f"{name}_unix_s", sa.Float(53), nullable=False) for name in ("from", "sealed")]
    texts = [sa.Column(name, sa.Text(), nullable=False) for name in ("previous", "digest")]
    rows = sa.Column("rows", sa.BigInteger(), nullable=False)
    of_tables = sa.Column("tables", sa.JSON(), nullable=False)
    op.create_table(
        "seals", sa.Column("until_unix_s", sa.Float(53), primary_key=True), *numbers, *texts, rows, of_tables
    )

"""When a price was known, and seals by table."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column, and make the table of seals again, which no program has filled."""
    op.add_column("prices", sa.Column("known_unix_s", sa.Float(53)))
    op.drop_table("seals")
    op.create_table(
        "seals",
        sa.Column("until_unix_s", sa.Float(53), primary_key=True),
        sa.Column("from_unix_s", sa.Float(53), nullable=False),
        sa.Column("sealed_unix_s", sa.Float(53), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("tables", sa.JSON(), nullable=False),
    )

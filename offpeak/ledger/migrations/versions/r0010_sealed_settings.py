"""The settings, the tariff, the time zone and the versions under which each day was sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table. Days that are sealed already have no rows in it."""
    keys = (("at_unix_s", sa.Float(53)), ("setting", sa.Text()))
    op.create_table(
        "sealed_settings",
        *(sa.Column(name, kind, primary_key=True) for name, kind in keys),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("value", "public")),
    )


def downgrade() -> None:
    """Drop the table. Days that were sealed with it miss its rows after the next upgrade."""
    op.drop_table("sealed_settings")

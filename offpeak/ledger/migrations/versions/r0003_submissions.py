"""Jobs that a broker gives to the sites of a federation, so that none is submitted twice."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make a table and its index."""
    op.create_table(
        "submissions",
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column("at_unix_s", sa.Float(53), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tried_unix_s", sa.Float(53), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
    )
    op.create_index("submissions_by_time", "submissions", ["at_unix_s"])

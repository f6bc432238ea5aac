"""What the tiers of jobs have moved, and what it is worth."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table and its index."""
    numbers = ("ended_unix_s", "baseline_unix_s", "shifted_j")
    op.create_table(
        "credits",
        sa.Column("job", sa.Text(), primary_key=True),
        sa.Column("started_unix_s", sa.Float(53), primary_key=True),
        *(sa.Column(name, sa.Float(53), nullable=False) for name in numbers),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("saved", sa.Float(53)),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("credit", sa.Float(53)),
    )
    op.create_index("credits_by_end", "credits", ["ended_unix_s"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("credits")

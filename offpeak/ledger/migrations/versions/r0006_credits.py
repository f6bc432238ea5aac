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
        *(
            sa.Column(name, kind, primary_key=True)
            for name, kind in (("job", sa.Text()), ("started_unix_s", sa.Float(53)))
        ),
        *(sa.Column(name, sa.Float(53), nullable=False) for name in numbers),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("tier", "currency")),
        *(sa.Column(name, sa.Float(53)) for name in ("saved", "credit")),
    )
    op.create_index("credits_by_end", "credits", ["ended_unix_s"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("credits")

"""The GPU-seconds of jobs, and what their idle GPUs cost."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table and its index."""
    numbers = ("ended_unix_s", "allocated_s", "idle_s", "busy_s", "idle_j")
    keys = (("job", sa.Text()), ("started_unix_s", sa.Float(53)))
    op.create_table(
        "job_gpus",
        *(sa.Column(name, kind, primary_key=True) for name, kind in keys),
        *(sa.Column(name, sa.Float(53), nullable=False) for name in numbers),
        sa.Column("idle_cost", sa.Float(53)),
        sa.Column("currency", sa.Text(), nullable=False),
    )
    op.create_index("job_gpus_by_end", "job_gpus", ["ended_unix_s"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("job_gpus")

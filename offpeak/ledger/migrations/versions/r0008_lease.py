"""The lease of the agent that acts, of a pair of head nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table and its only row."""
    texts = [sa.Column(name, sa.Text(), nullable=False) for name in ("holder", "standby")]
    times = [sa.Column(name, sa.Float(53), nullable=False) for name in ("until_unix_s", "standby_unix_s")]
    token = sa.Column("token", sa.BigInteger(), primary_key=True, autoincrement=False)
    lease = op.create_table("lease", token, sa.Column("timeline", sa.BigInteger(), nullable=False), *texts, *times)
    row = {"token": 0, "timeline": 0, "holder": "", "standby": "", "until_unix_s": 0.0, "standby_unix_s": 0.0}
    op.bulk_insert(lease, [row])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("lease")

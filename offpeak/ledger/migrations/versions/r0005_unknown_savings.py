"""Savings that are not known: without energy, where older programs stored 0. Those of a running day: as of when."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ENERGIES = ("baseline_energy_j", "energy_j")


def upgrade() -> None:
    """Let the energies be NULL, and make them so where the basis says that they are not known."""
    _alter(nullable=True)
    op.add_column("savings", sa.Column("as_of_unix_s", sa.Float(53)))
    op.execute("UPDATE savings SET baseline_energy_j = NULL, energy_j = NULL WHERE basis LIKE 'not known, because %'")


def downgrade() -> None:
    """Store 0 again."""
    op.execute("UPDATE savings SET baseline_energy_j = 0, energy_j = 0 WHERE energy_j IS NULL")
    _alter(nullable=False)
    op.drop_column("savings", "as_of_unix_s")


def _alter(*, nullable: bool) -> None:
    with op.batch_alter_table("savings") as table:
        for name in ENERGIES:
            table.alter_column(name, existing_type=sa.Float(53), nullable=nullable)

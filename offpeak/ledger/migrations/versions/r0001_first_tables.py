"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables."""
    _readings()
    op.create_table(
        "states",
        sa.Column("node", sa.Text(), primary_key=True),
        sa.Column("at_unix_s", sa.Float(53), primary_key=True),
        *map(_text, ("observed", "desired", "by", "why")),
    )
    op.create_index("states_by_time", "states", ["at_unix_s"])
    op.create_table(
        "holds",
        sa.Column("number", NUMBER, primary_key=True),
        *map(_text, ("node", "owner", "reason")),
        _number("since_unix_s"),
        *map(_maybe, ("until_unix_s", "released_unix_s")),
        sa.Column("released_by", sa.Text()),
    )
    op.create_index("holds_by_node", "holds", ["node"])
    _decisions()
    _money()


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _number(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float(53), nullable=False)


def _maybe(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float(53))


def _readings() -> None:
    op.create_table(
        "series",
        sa.Column("number", NUMBER, primary_key=True),
        *map(_text, ("meter", "way", "part", "node")),
        sa.UniqueConstraint("meter", "way", "part", "node"),
    )
    op.create_table(
        "readings",
        sa.Column("until_unix_s", sa.Float(53), primary_key=True),
        sa.Column("series", NUMBER, sa.ForeignKey("series.number"), primary_key=True),
        sa.Column("from_unix_s", sa.Float(53), primary_key=True),
        *map(_maybe, ("power_w", "energy_j")),
        sa.Column("why", sa.Text()),
        sqlite_with_rowid=False,
    )
    for name in ("minutes", "quarters"):
        op.create_table(
            name,
            sa.Column("at_unix_s", sa.BigInteger(), primary_key=True, autoincrement=False),
            sa.Column("series", NUMBER, sa.ForeignKey("series.number"), primary_key=True),
            *map(_number, ("covered_s", "energy_j")),
            *map(_maybe, ("min_w", "max_w")),
            sa.Column("without_value", sa.Integer(), nullable=False),
            sqlite_with_rowid=False,
        )


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("number", NUMBER, primary_key=True),
        _number("at_unix_s"),
        *map(_text, ("subject", "decided", "reason")),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.UniqueConstraint("at_unix_s", "subject", "decided"),
    )
    op.create_table(
        "intents",
        sa.Column("number", NUMBER, primary_key=True),
        _number("at_unix_s"),
        *map(_text, ("subject", "order", "by", "reason")),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("intents_by_time", "intents", ["at_unix_s"])
    op.create_table(
        "outcomes",
        sa.Column("intent", NUMBER, sa.ForeignKey("intents.number"), primary_key=True),
        _number("at_unix_s"),
        *map(_text, ("result", "said", "trouble")),
    )
    op.create_table(
        "refusals",
        sa.Column("number", NUMBER, primary_key=True),
        _number("at_unix_s"),
        *map(_text, ("subject", "order", "by", "reason")),
        sa.Column("inputs", sa.JSON(), nullable=False),
        *map(_text, ("rule", "said", "hint", "trouble")),
        sa.UniqueConstraint("at_unix_s", "subject", "order", "rule"),
    )


def _money() -> None:
    op.create_table(
        "prices",
        sa.Column("from_unix_s", sa.Float(53), primary_key=True),
        *map(_number, ("until_unix_s", "price_per_mwh")),
        *map(_text, ("currency", "source")),
        _maybe("carbon_g_per_kwh"),
    )
    op.create_table(
        "jobs",
        sa.Column("job", sa.Text(), primary_key=True),
        sa.Column("started_unix_s", sa.Float(53), primary_key=True),
        _number("ended_unix_s"),
        *map(_text, ("user", "account", "partition", "nodes")),
        *map(_maybe, ("energy_j", "cost")),
        _text("currency"),
        _maybe("carbon_g"),
        _text("basis"),
    )
    op.create_index("jobs_by_end", "jobs", ["ended_unix_s"])
    op.create_table(
        "savings",
        sa.Column("from_unix_s", sa.Float(53), primary_key=True),
        sa.Column("until_unix_s", sa.Float(53), primary_key=True),
        sa.Column("baseline", sa.Text(), primary_key=True),
        _number("baseline_energy_j"),
        _maybe("baseline_cost"),
        _number("energy_j"),
        _maybe("cost"),
        *map(_text, ("currency", "basis")),
    )

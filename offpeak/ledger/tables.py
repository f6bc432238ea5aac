"""The tables of the ledger.

Times are Unix seconds, units end the names of columns, and an amount of money has its currency beside it.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up in its own integers only, which are long enough."""


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _filled(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _number(name: str) -> Column[float]:
    return Column(name, Float(53), nullable=False)


def _maybe(name: str) -> Column[float]:
    return Column(name, Float(53))


series = Table(
    "series",
    metadata,
    Column("number", NUMBER, primary_key=True),
    *map(_text, ("meter", "way", "part", "node")),
    UniqueConstraint("meter", "way", "part", "node"),
)
"""What is measured: one part of one meter; `node` is empty where it is not the power of one node."""

# Ordered by time first, so that new rows are together, and so are pruned rows.
readings = Table(
    "readings",
    metadata,
    Column("until_unix_s", Float(53), primary_key=True),
    Column("series", ForeignKey("series.number"), primary_key=True),
    Column("from_unix_s", Float(53), primary_key=True),
    *map(_maybe, ("power_w", "energy_j")),
    Column("why", Text),
    sqlite_with_rowid=False,
)
"""Every reading, cut at full minutes. Readings after a clock was set back may overlap; a repeated one is detected."""


def _means(name: str) -> Table:
    """Return a table of means: energy and covered seconds add up, so they stay exact however they are summed."""
    return Table(
        name,
        metadata,
        Column("at_unix_s", BigInteger, primary_key=True, autoincrement=False),
        Column("series", ForeignKey("series.number"), primary_key=True),
        *map(_number, ("covered_s", "energy_j")),
        *map(_maybe, ("min_w", "max_w")),
        Column("without_value", Integer, nullable=False),
        sqlite_with_rowid=False,
    )


minutes = _means("minutes")
quarters = _means("quarters")

states = Table(
    "states",
    metadata,
    Column("node", Text, primary_key=True),
    Column("at_unix_s", Float(53), primary_key=True),
    *map(_text, ("observed", "desired", "by", "why")),
    Index("states_by_time", "at_unix_s"),
)

holds = Table(
    "holds",
    metadata,
    Column("number", NUMBER, primary_key=True),
    *map(_text, ("node", "owner", "reason")),
    _number("since_unix_s"),
    *map(_maybe, ("until_unix_s", "released_unix_s")),
    Column("released_by", Text),
    Index("holds_by_node", "node"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("number", NUMBER, primary_key=True),
    _number("at_unix_s"),
    *map(_text, ("subject", "decided", "reason")),
    Column("inputs", JSON, nullable=False),
    UniqueConstraint("at_unix_s", "subject", "decided"),
    Index("decisions_by_subject", "subject", "at_unix_s"),
)

intents = Table(
    "intents",
    metadata,
    Column("number", NUMBER, primary_key=True),
    _number("at_unix_s"),
    *map(_text, ("subject", "order", "by", "reason")),
    Column("inputs", JSON, nullable=False),
    Index("intents_by_time", "at_unix_s"),
    sqlite_autoincrement=True,
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("intent", ForeignKey("intents.number"), primary_key=True),
    _number("at_unix_s"),
    *map(_text, ("result", "said", "trouble")),
)

refusals = Table(
    "refusals",
    metadata,
    Column("number", NUMBER, primary_key=True),
    _number("at_unix_s"),
    *map(_text, ("subject", "order", "by", "reason")),
    Column("inputs", JSON, nullable=False),
    *map(_text, ("rule", "said", "hint", "trouble")),
    UniqueConstraint("at_unix_s", "subject", "order", "rule"),
)

prices = Table(
    "prices",
    metadata,
    Column("from_unix_s", Float(53), primary_key=True),
    *map(_number, ("until_unix_s", "price_per_mwh")),
    *map(_text, ("currency", "source")),
    *map(_maybe, ("carbon_g_per_kwh", "known_unix_s")),
)
"""Prices as the agent paid by them; `known_unix_s` is when it first had that price, empty in rows of older programs."""

jobs = Table(
    "jobs",
    metadata,
    Column("job", Text, primary_key=True),
    Column("started_unix_s", Float(53), primary_key=True),
    _number("ended_unix_s"),
    *map(_text, ("user", "account", "partition", "nodes")),
    *map(_maybe, ("energy_j", "cost")),
    _text("currency"),
    _maybe("carbon_g"),
    _text("basis"),
    *map(_maybe, ("submitted_unix_s", "limit_s")),
    Column("node_count", Integer),
    Column("cpus", Integer),
    Index("jobs_by_end", "ended_unix_s"),
)
"""Jobs that ended; the last four columns are empty in rows of older programs, which replays leave out."""

savings = Table(
    "savings",
    metadata,
    Column("from_unix_s", Float(53), primary_key=True),
    Column("until_unix_s", Float(53), primary_key=True),
    Column("baseline", Text, primary_key=True),
    *map(_maybe, ("baseline_energy_j", "baseline_cost", "energy_j")),
    _maybe("cost"),
    *map(_text, ("currency", "basis")),
    Column("lever", Text, nullable=False, server_default="sleep"),
    Column("is_shadow", Integer, nullable=False, server_default="0"),
    *map(_maybe, ("low_cost", "high_cost", "saved_carbon_g", "measured_share", "node_hours")),
    Column("delayed_jobs", Integer),
    *map(_maybe, ("delay_s", "as_of_unix_s")),
)
"""What each lever saved in a period: `low_cost` and `high_cost` bound the saving in 19 of 20 cases, `is_shadow` marks
what shadow mode would have saved, `delay_s` is the mean delay of the `delayed_jobs`, `as_of_unix_s` the end of what the
row of a running day counts. What is not known is NULL.
"""

credits = Table(
    "credits",
    metadata,
    *(Column(name, kind, primary_key=True) for name, kind in (("job", Text()), ("started_unix_s", Float(53)))),
    *map(_number, ("ended_unix_s", "baseline_unix_s", "shifted_j")),
    *map(_text, ("tier", "currency")),
    *map(_maybe, ("saved", "credit")),
)
Index("credits_by_end", credits.c.ended_unix_s)
"""What the tier of a job that ended has moved: `baseline_unix_s` is the start that it would have had without it."""

job_gpus = Table(
    "job_gpus",
    metadata,
    *(Column(name, kind, primary_key=True) for name, kind in (("job", Text()), ("started_unix_s", Float(53)))),
    *map(_number, ("ended_unix_s", "allocated_s", "idle_s", "busy_s", "idle_j")),
    _maybe("idle_cost"),
    _text("currency"),
)
Index("job_gpus_by_end", job_gpus.c.ended_unix_s)
"""The GPU-seconds of jobs that had GPUs: allocated, idle and busy; of the rest it is not known."""

trial_days = Table(
    "trial_days",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("trial", "lever", "partition")),
    Column("from_unix_s", Float(53), primary_key=True),
    *map(_number, ("until_unix_s", "drawn_unix_s")),
    *map(_filled, ("is_on", "seed"), (Integer(), Text())),
)
"""The drawn periods of a trial, written before the first of them begins: whether a lever is on in it."""

seals = Table(
    "seals",
    metadata,
    Column("until_unix_s", Float(53), primary_key=True),
    *map(_number, ("from_unix_s", "sealed_unix_s")),
    *map(_text, ("previous", "digest")),
    *map(_filled, ("rows", "tables"), (BigInteger(), JSON())),
)
"""The chain over the rows of each day: a digest of the seals of its `tables` and of the seal before it."""

sealed_settings = Table(
    "sealed_settings",
    metadata,
    *(Column(name, kind, primary_key=True) for name, kind in (("at_unix_s", Float(53)), ("setting", Text()))),
    *map(_text, ("value", "public")),
)
"""What was in force when a day was sealed, at the begin of that day: settings, which may name people, as `value`; time
zone, tariff and versions as `public`."""

marks = Table(
    "marks",
    metadata,
    Column("job", Text, primary_key=True),
    Column("submitted_unix_s", Float(53), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("was", BigInteger, nullable=False),
    Column("to", BigInteger, nullable=False),
    _number("at_unix_s"),
)

submissions = Table(
    "submissions",
    metadata,
    Column("key", Text, primary_key=True),
    _number("at_unix_s"),
    *map(_text, ("by", "digest", "site", "state")),
    _number("tried_unix_s"),
    *map(_text, ("job", "said")),
    Column("answer", JSON, nullable=False),
    Index("submissions_by_time", "at_unix_s"),
)
"""Jobs that a broker sends to sites, one row per key, with the site that has the job or is being tried."""

memory = Table("memory", metadata, Column("name", Text, primary_key=True), _text("text"), _number("at_unix_s"))
"""States that a restarted program resumes, as JSON: one text per name."""

lease = Table(
    "lease",
    metadata,
    Column("token", BigInteger, primary_key=True, autoincrement=False),
    _filled("timeline", BigInteger()),
    *map(_text, ("holder", "standby")),
    *map(_number, ("until_unix_s", "standby_unix_s")),
)
"""One row: which of the agents of a pair of head nodes acts, until when, and which one stands by."""

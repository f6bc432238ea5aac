"""The settings of a replay and of its inputs: logs, prices, carbon intensity, power, the machine and its scheduling."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.prices import ASSUMED_TARIFF
from offpeak.settings.kinds import (
    BOOL,
    DURATION,
    NAMES,
    NODE_POWER,
    PATH,
    PERIOD,
    TARIFF,
    TEXT,
    WEIGHING,
    choice,
    row,
    whole_number,
)

ASSUMED_IDLE_W = 75.0
"""Assumed power of an idle node if it is not set."""


@dataclass(frozen=True)
class PriceSettings:
    """The price of electricity, and the on-peak hours."""

    file: Path | None = row(
        PATH,
        "--prices",
        "CSV file of electricity prices, plain or .gz; without one the tariff is used.",
        example="prices.csv",
    )
    layout: str | None = row(
        TEXT,
        "--price-layout",
        "Columns, unit and time zone of the price file, if its header and name do not declare them; or start= and "
        "step=.",
        example="time=utc,value=price,unit=EUR/MWh,zone=UTC",
    )
    tariff: str | None = row(
        TARIFF,
        "--tariff",
        "On-peak and off-peak price and the on-peak hours, in the log's time zone or that of zone=; optionally days= "
        f"and holidays=. If neither prices nor a tariff are set, {ASSUMED_TARIFF} is assumed and reported.",
        example=ASSUMED_TARIFF,
    )
    peak_rule: str = row(
        TEXT,
        "--peak-rule",
        "On-peak hours of a price file: day-mean (above the mean of the day), quantile:0.6 or hours:09:00-23:00.",
        default="day-mean",
    )
    decide_by: str = row(
        WEIGHING,
        "--decide-by",
        "What the order, delays and plans go by: price, co2, or price+co2:80 (80 of the prices' currency for a tonne "
        "of CO2). Bills have the price alone.",
        default="price",
    )
    fill_gaps: bool = row(
        BOOL,
        "--fill-gaps",
        "Fill a gap in the price file with the same hour of the latest known week before it.",
        default=False,
    )


@dataclass(frozen=True)
class CarbonSettings:
    """The carbon intensity of electricity."""

    source: str | None = row(
        TEXT,
        "--carbon",
        "CSV file of carbon intensity, or one value for all hours; for a file with direct and life-cycle columns "
        "also the column: carbon.csv,value=direct.",
        example="400g/kWh",
    )


@dataclass(frozen=True)
class PowerSettings:
    """The power of jobs and of idle nodes."""

    job: str | None = row(
        TEXT,
        "--power",
        "Power model of jobs, per node; when not set: the measurements of the log, else uniform.",
        example="uniform:100W-300W",
    )
    classes: tuple[str, ...] | None = row(
        NAMES,
        "--power-classes",
        "Power of jobs per node for the agent, by name, user:, account: or partition:; the first match applies and "
        "takes precedence over measurements.",
        example=("hot*=400W", "partition:gpu=900W"),
    )
    idle_w: float | None = row(
        NODE_POWER,
        "--idle-power",
        f"Power of a node that is on and has no job; when not set: {ASSUMED_IDLE_W:g} W, assumed.",
        example="75W",
        unit="per node",
    )
    seed: int = row(
        whole_number(0),
        "--seed",
        "Seed of the power model: the same seed gives every job the same power.",
        default=1,
    )
    node_class: str | None = row(
        TEXT,
        "--node-class",
        "Power of a node in each power state, and the duration of transitions: a bundled class or a TOML file.",
        example="server",
    )

    @property
    def idle_node_w(self) -> float:
        """Return the idle draw of a node [W], as set or as assumed."""
        return ASSUMED_IDLE_W if self.idle_w is None else self.idle_w


@dataclass(frozen=True)
class MachineSettings:
    """The machine whose queue is replayed."""

    nodes: int | None = row(
        whole_number(1),
        "--nodes",
        "Size of the machine in nodes, for SWF in the log's own unit; when not set: as declared in the log, else the "
        "most in use at once.",
        example=128,
        unit="nodes",
    )
    processors_per_node: int | None = row(
        whole_number(1),
        "--processors-per-node",
        "Processors per node, to convert a log that counts processors to nodes; when not set: as declared in the "
        "log, else 1.",
        example=16,
        unit="per node",
    )
    cluster: Path | None = row(
        PATH,
        "--cluster",
        "TOML file that describes a machine of several node types: its nodes, partitions and limits.",
        example="cluster.toml",
    )


@dataclass(frozen=True)
class SchedulingSettings:
    """How the queue is ordered, and how often."""

    policies: tuple[str, ...] = row(
        NAMES,
        "--policy",
        "Policies to compare; the first is the baseline.",
        default=("easy", "greedy", "knapsack"),
    )
    window: int = row(
        whole_number(1, 1000),
        "--window",
        "Jobs at the head of the queue that a policy may reorder; a job behind them keeps its place.",
        default=20,
        unit="jobs",
    )
    period_s: int | None = row(
        PERIOD,
        "--period",
        "Time between two scheduling passes; event: a pass whenever a job is submitted or ends.",
        default="event",
    )
    max_postponement_s: int = row(
        DURATION,
        "--max-postponement",
        "Limit on overtaking: after this time since a later job first overtook it, a job keeps its place.",
        default="24h",
        unit="per job",
    )
    estimates: str = row(
        choice("user", "exact", "predicted", "boosted"),
        "--estimates",
        "Run times that the scheduler plans with: user (as requested), exact (actual), predicted (mean of the user's "
        "last two jobs) or boosted (boosted trees).",
        default="user",
    )
    kill_at_estimate: bool = row(
        BOOL,
        "--kill-at-estimate",
        "End a job that reaches its estimate, as a batch system does; otherwise it runs as long as in the log.",
        default=False,
    )
    passes: str = row(
        choice("second", "event"),
        "--passes",
        "second: one scheduling pass per second, after all of its events; event: one pass per event, as pyss does.",
        default="second",
    )


@dataclass(frozen=True)
class LogSettings:
    """How job logs are read."""

    time_zone: str | None = row(
        TEXT,
        "--time-zone",
        "Time zone of times without an offset, as sacct prints them; when not set: that of this machine.",
        example="Europe/Berlin",
    )
    anonymise: bool = row(
        BOOL,
        "--anonymise",
        "Number users, accounts, queues and job names instead of printing them.",
        default=False,
    )

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
    choice,
    row,
    whole_number,
)

ASSUMED_IDLE_W = 75.0
"""What an idle node is taken to draw where nobody says otherwise."""


@dataclass(frozen=True)
class PriceSettings:
    """What electricity costs, and when it counts as dear."""

    file: Path | None = row(
        PATH,
        "--prices",
        "CSV file of electricity prices, plain or .gz; without one the tariff holds.",
        example="prices.csv",
    )
    layout: str | None = row(
        TEXT,
        "--price-layout",
        "Columns, unit and clock of the price file, where its header and name do not tell them; or start= and step=.",
        example="time=utc,value=price,unit=EUR/MWh,zone=UTC",
    )
    tariff: str | None = row(
        TARIFF,
        "--tariff",
        "Two prices and the hours of the dear one, on the log's clock or that of zone=; days= and holidays= as well."
        f" When no prices are set either, {ASSUMED_TARIFF} is assumed, and said.",
        example=ASSUMED_TARIFF,
    )
    peak_rule: str = row(
        TEXT,
        "--peak-rule",
        "What is on-peak in a price file: day-mean (dearer than its day's mean), quantile:0.6 or hours:09:00-23:00.",
        default="day-mean",
    )
    fill_gaps: bool = row(
        BOOL,
        "--fill-gaps",
        "Fill a gap in the price file from the same hour of the latest week before it that is known.",
        default=False,
    )


@dataclass(frozen=True)
class CarbonSettings:
    """How much CO2 a kilowatt-hour stands for."""

    source: str | None = row(
        TEXT,
        "--carbon",
        "CSV file of carbon intensity, or one figure for all hours; of a file with direct and life-cycle columns also"
        " which: carbon.csv,value=direct.",
        example="400g/kWh",
    )


@dataclass(frozen=True)
class PowerSettings:
    """What jobs and idle nodes draw."""

    job: str | None = row(
        TEXT,
        "--power",
        "Power model of jobs, per node; when not set: what the log measured, else uniform.",
        example="uniform:100W-300W",
    )
    classes: tuple[str, ...] | None = row(
        NAMES,
        "--power-classes",
        "What jobs draw per node by name, user:, account: or partition:, for the agent; the first that fits counts,"
        " and before what was measured.",
        example=("hot*=400W", "partition:gpu=900W"),
    )
    idle_w: float | None = row(
        NODE_POWER,
        "--idle-power",
        f"What a node draws when it is on and runs nothing; when not set: {ASSUMED_IDLE_W:g} W, assumed.",
        example="75W",
        unit="per node",
    )
    seed: int = row(
        whole_number(0),
        "--seed",
        "Seed of the power model: the same seed gives every job the same draw again.",
        default=1,
    )
    node_class: str | None = row(
        TEXT,
        "--node-class",
        "What nodes draw in each power state and how long they need to change it: a bundled class or a TOML file.",
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
        "Size of the machine: in nodes, for SWF in the log's own unit; when not set: as the log says, or shows.",
        example=128,
        unit="nodes",
    )
    processors_per_node: int | None = row(
        whole_number(1),
        "--processors-per-node",
        "Processors of a node: a log that counts processors is turned into nodes with it; when not set: as the log"
        " says, else 1.",
        example=16,
        unit="per node",
    )


@dataclass(frozen=True)
class SchedulingSettings:
    """How the queue is ordered, and how often."""

    policies: tuple[str, ...] = row(
        NAMES,
        "--policy",
        "Policies to compare; the first is what the others are measured against.",
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
        "A job that later ones have been passing for this long keeps its place: no policy moves another before it.",
        default="24h",
        unit="per job",
    )
    estimates: str = row(
        choice("user", "exact", "predicted", "boosted"),
        "--estimates",
        "Run times that the scheduler plans with: what users asked for, what jobs took, or a prediction: from the same"
        " user's last two jobs, or by boosted trees.",
        default="user",
    )
    kill_at_estimate: bool = row(
        BOOL,
        "--kill-at-estimate",
        "End a job that reaches its estimate, as a batch system does; otherwise it runs as long as the log says.",
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
        "Clock of a log's times that have no offset, as sacct prints them; when not set: this machine's.",
        example="Europe/Berlin",
    )
    anonymise: bool = row(
        BOOL,
        "--anonymise",
        "Number users, accounts, queues and job names instead of printing them.",
        default=False,
    )

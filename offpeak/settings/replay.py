"""The settings of a replay and of its inputs: logs, prices, feeds, carbon intensity, power, the machine and its
scheduling.
"""

from dataclasses import dataclass
from pathlib import Path

from offpeak.prices import ASSUMED_TARIFF
from offpeak.settings.kinds import (
    BOOL,
    DURATION,
    NAMES,
    NODE_POWER,
    PATH,
    PERCENT,
    PERIOD,
    TEXT,
    WEIGHING,
    SettingKind,
    choice,
    row,
    whole_number,
)

ASSUMED_IDLE_W = 75.0
"""Assumed power of an idle node if it is not set."""


def _tariff(written: object) -> str:
    # The rule's hours need numpy, which settings without a tariff do without.
    from offpeak.prices.tariff_file import site_tariff

    return site_tariff(TEXT.read(written)).text


TARIFF = SettingKind("text", _tariff)


@dataclass(frozen=True)
class PriceSettings:
    """The price of electricity, and the on-peak hours."""

    file: Path | None = row(
        PATH,
        "CSV file of electricity prices, plain or .gz; without one the tariff is used.",
        example="prices.csv",
        flag="--prices",
    )
    layout: str | None = row(
        TEXT,
        "Columns, unit and time zone of the price file, if its header and name do not declare them; or start= and "
        "step=.",
        example="time=utc,value=price,unit=EUR/MWh,zone=UTC",
        flag="--price-layout",
    )
    tariff: str | None = row(
        TARIFF,
        "Tariff file (.toml) with all positions of the bill; or on-peak and off-peak price and the on-peak hours, in "
        "the log's time zone or that of zone=, optionally days= and holidays=. If neither prices nor a tariff are set, "
        f"{ASSUMED_TARIFF} is assumed and reported.",
        example=ASSUMED_TARIFF,
    )
    peak_rule: str = row(
        TEXT,
        "On-peak hours of a price file: day-mean (above the mean of the day), quantile:0.6 or hours:09:00-23:00.",
        default="day-mean",
    )
    decide_by: str = row(
        WEIGHING,
        "What the order, delays and plans go by: price, co2, or price+co2:80 (80 of the prices' currency for a tonne "
        "of CO2). Bills have the price alone.",
        default="price",
    )
    fill_gaps: bool = row(
        BOOL, "Fill a gap in the price file with the same hour of the latest known week before it.", default=False
    )


@dataclass(frozen=True)
class CarbonSettings:
    """The carbon intensity of electricity."""

    source: str | None = row(
        TEXT,
        "CSV file of carbon intensity, or one value for all hours; for a file with direct and life-cycle columns "
        "also the column: carbon.csv,value=direct.",
        example="400g/kWh",
        flag="--carbon",
    )


@dataclass(frozen=True)
class PowerSettings:
    """The power of jobs and of idle nodes."""

    job: str | None = row(
        TEXT,
        "Power model of jobs, per node; when not set: the measurements of the log, else uniform.",
        example="uniform:100W-300W",
        flag="--power",
    )
    classes: tuple[str, ...] | None = row(
        NAMES,
        "Power of a node full of such jobs, for the agent, by name, user:, account: or partition:; the first match "
        "applies and takes precedence over measurements.",
        example=("hot*=400W", "partition:gpu=900W"),
        flag="--power-classes",
    )
    idle_w: float | None = row(
        NODE_POWER,
        f"Power of a node that is on and has no job; when not set: {ASSUMED_IDLE_W:g} W, in replays that of a named"
        " node class.",
        example="75W",
        unit="per node",
        flag="--idle-power",
    )
    seed: int = row(
        whole_number(0), "Seed of the power model: the same seed gives every job the same power.", default=1
    )
    node_class: str | None = row(
        TEXT,
        "Power of a node in each power state, and the duration of transitions: a bundled class (dune, jufit, juggle,"
        " server, sketch) or a TOML file; the agent takes the classes of the inventory.",
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
        "Size of the machine in nodes, for SWF in the log's own unit; when not set: as declared in the log, else the "
        "nodes that its jobs name, or the most in use at once.",
        example=128,
        unit="nodes",
    )
    processors_per_node: int | None = row(
        whole_number(1),
        "Processors per node, to convert a log that counts processors to nodes; when not set: as declared in the "
        "log, else 1.",
        example=16,
        unit="per node",
    )
    cluster: Path | None = row(
        PATH,
        "TOML file that describes a machine of several node types: its nodes, partitions and limits.",
        example="cluster.toml",
    )


@dataclass(frozen=True)
class SchedulingSettings:
    """How the queue is ordered, and how often."""

    policies: tuple[str, ...] = row(
        NAMES,
        "Policies to compare: fcfs, easy, conservative, first-fit, best-fit, bff, bbf, greedy, knapsack, greedy-slide,"
        " knapsack-slide, or one of your own; the first is the baseline.",
        default=("easy", "greedy", "knapsack"),
        flag="--policy",
    )
    window: int = row(
        whole_number(1, 1000),
        "Jobs at the head of the queue that a policy may reorder; a job behind them keeps its place.",
        default=20,
        unit="jobs",
    )
    period_s: int | None = row(
        PERIOD,
        "Time between two scheduling passes; event: a pass whenever a job is submitted or ends.",
        default="event",
    )
    max_postponement_s: int = row(
        DURATION,
        "Limit on overtaking: after this time since a later job first overtook it, a job keeps its place.",
        default="24h",
        unit="per job",
    )
    priority_band_percent: int = row(
        PERCENT,
        "Jobs of one QOS change places only if their priorities differ by at most this share of the priority range; 0:"
        " only equal priorities, 100: any.",
        default=10,
        unit="% of the range",
    )
    estimates: str = row(
        choice("user", "exact", "predicted", "boosted"),
        "Run times that the scheduler plans with: user (as requested), exact (actual), predicted (mean of the user's "
        "last two jobs) or boosted (boosted trees).",
        default="user",
    )
    kill_at_estimate: bool = row(
        BOOL,
        "End a job that reaches its estimate, as a batch system does; otherwise it runs as long as in the log.",
        default=False,
    )
    passes: str = row(
        choice("second", "event"),
        "second: one scheduling pass per second, after all of its events; event: one pass per event, as pyss does.",
        default="second",
    )


@dataclass(frozen=True)
class LogSettings:
    """How job logs are read."""

    time_zone: str | None = row(
        TEXT,
        "Time zone of times without an offset, as sacct prints them; when not set: that of this machine.",
        example="Europe/Berlin",
    )
    anonymise: bool = row(BOOL, "Number users, accounts, queues and job names instead of printing them.", default=False)


@dataclass(frozen=True)
class FeedSettings:
    """Sources of values while the agent runs, in order: if one fails, the next is used."""

    prices: tuple[str, ...] | None = row(
        NAMES,
        "Sources of known prices, in order: energy-charts, nord-pool, entso-e, us-markets, openadr, or file and tariff "
        "as set in [prices].",
        example=("energy-charts", "nord-pool"),
        flag="--price-feeds",
    )
    carbon: tuple[str, ...] | None = row(
        NAMES,
        "Sources of carbon intensity, in order: electricity-maps, great-britain, watttime, openadr, or file as set in "
        "[carbon].",
        example=("electricity-maps",),
        flag="--carbon-feeds",
    )
    temperature: tuple[str, ...] | None = row(
        NAMES,
        "Sources of the outside temperature, in order: open-meteo, open-meteo-archive.",
        example=("open-meteo",),
        flag="--temperature-feeds",
    )
    inputs: tuple[str, ...] | None = row(
        NAMES,
        "Inputs of the price forecast, each on its own: entso-e-load, entso-e-wind-solar, open-meteo-wind, "
        "open-meteo-sun.",
        example=("entso-e-load", "entso-e-wind-solar"),
        flag="--input-feeds",
    )
    zone: str | None = row(
        TEXT,
        "Bidding zone, such as DE-LU, or American market and place, such as CAISO/TH_NP15_GEN-APND.",
        example="DE-LU",
    )
    watttime_region: str | None = row(
        TEXT,
        "Grid region of the source watttime, by its name there.",
        example="CAISO_NORTH",
        flag="--watttime-region",
    )
    currency: str | None = row(
        TEXT,
        "Currency of the prices; a response in another currency is refused. Without it that of the file or the tariff "
        "that is declared, or else EUR.",
        example="USD",
        flag="--feed-currency",
    )
    openadr: str | None = row(
        TEXT,
        "Address of the OpenADR 3 server of the source openadr, whose events have prices (PRICE) or intensities (GHG).",
        example="https://vtn.example.org/openadr3/3.0.1",
        flag="--feed-openadr",
    )
    openadr_program: str | None = row(
        TEXT,
        "ID of the programme at that server whose events count; when not set: those of all.",
        example="tariff-2026",
        flag="--feed-openadr-program",
    )
    openadr_targets: tuple[str, ...] | None = row(
        NAMES,
        "Names of this site at that server: an event for others does not count.",
        example=["hpc-site-1"],
        flag="--feed-openadr-targets",
    )
    place: str | None = row(
        TEXT,
        "Location of the machine in degrees north and east, for its weather.",
        example="52.52,13.41",
        flag="--feed-place",
    )
    key_file: Path | None = row(
        PATH,
        "File of mode 0600 with lines ENTSOE_API_KEY=..., ELECTRICITY_MAPS_TOKEN=..., WATTTIME_LOGIN=user:password, "
        "and OPENADR_TOKEN=... or "
        "OPENADR_CLIENT_ID=... and OPENADR_CLIENT_SECRET=...; environment variables take precedence.",
        example="/etc/offpeak/keys",
        flag="--feed-keys",
    )
    cache: Path = row(
        PATH,
        "Folder for the last valid series of each source.",
        default="/var/cache/offpeak/feeds",
        flag="--feed-cache",
    )
    timeout_s: int = row(DURATION, "Time limit for a whole response of a source.", default="20s", flag="--feed-timeout")

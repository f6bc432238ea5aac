"""The settings of capacity policies: the nodes that may sleep, the sleep depths, and the bounds."""

from dataclasses import dataclass

from offpeak.settings.kinds import DURATION, NAMES, POWER, choice, number, row, whole_number

DEFAULT_SLA = 5.0
"""Of the mean slowdowns that the study of sleeping nodes compares, the one under which jobs wait least. The 200 of
Lawson and Smirni ("Power-aware resource allocation", ICS 2005) lets jobs wait for most of a day.
"""


@dataclass(frozen=True)
class CapacitySettings:
    """The settings for sleeping nodes and for keeping nodes awake. A limit of 0 is no limit."""

    policies: tuple[str, ...] = row(
        NAMES,
        "Capacity policies to compare, each with every scheduling policy: always-on, timeout:10min, energy-aware, "
        "green-pool:5%, break-even, priced, forecast:1h, forecast-late:1h, planned:20min, two-level:80%, ols:1h, "
        "profile:1h, or front for many of them; the first is the baseline.",
        default=("always-on",),
        example=("always-on", "timeout:10min", "ols:1h"),
        flag="--capacity",
    )
    sla: float = row(
        number(1.0),
        "Mean slowdown, 1 + wait / max(10 s, run), up to which a what-if lets nodes sleep.",
        default=DEFAULT_SLA,
    )
    depths: tuple[str, ...] = row(
        NAMES,
        "Sleep depths to use: powersave, standby, off, or deepest; with several, a node changes to a deeper one when "
        "that saves energy.",
        default=("deepest",),
        example=("standby",),
        flag="--depth",
    )
    keep_hot: int = row(
        whole_number(0), "Minimum number of awake nodes, with or without jobs.", default=0, unit="nodes"
    )
    wake_ahead_s: int = row(
        DURATION,
        "Wake nodes, or keep them awake, this long before the planned start of the first waiting job.",
        default="0s",
    )
    min_awake_s: int = row(
        DURATION, "Minimum time that a node stays awake after a wake-up.", default="0s", unit="per node"
    )
    min_asleep_s: int = row(
        DURATION, "Minimum time that a node sleeps, unless a job needs it.", default="0s", unit="per node"
    )
    cycles_per_day: int = row(
        whole_number(0),
        "Maximum number of times that a node may be put to sleep in a day; 0: no limit.",
        default=0,
        unit="per node",
    )
    order: str = row(
        choice("number", "idle-age", "wear"),
        "Which idle nodes sleep first: the highest-numbered, the longest idle, or those with the fewest cycles today.",
        default="number",
        flag="--sleep-order",
    )
    sleeps_per_min: int = row(
        whole_number(0),
        "Maximum number of nodes put to sleep per minute; 0: no limit.",
        default=0,
        unit="nodes per minute",
        flag="--sleep-rate",
    )
    wakes_per_min: int = row(
        whole_number(0),
        "Maximum number of nodes woken per minute; 0: no limit.",
        default=0,
        unit="nodes per minute",
        flag="--wake-rate",
    )
    sleep_ramp_w: float | None = row(
        POWER,
        "Maximum decrease of the machine's power per minute by nodes put to sleep.",
        example="5kW",
        unit="per minute",
    )
    wake_ramp_w: float | None = row(
        POWER,
        "Maximum increase of the machine's power per minute by nodes that wake.",
        example="5kW",
        unit="per minute",
    )
    cycle_cost: float = row(
        number(0.0),
        "Cost of wear per power cycle of a node, in the currency of the prices: the higher, the longer nodes stay "
        "awake.",
        default=0.0,
        unit="per cycle",
    )

"""The settings of capacity policies: the nodes that may sleep, the sleep depths, and the bounds."""

from dataclasses import dataclass

from offpeak.settings.kinds import DURATION, NAMES, POWER, choice, number, row, whole_number

DEFAULT_SLA = 200.0
"""The mean slowdown that Lawson and Smirni allow ("Power-aware resource allocation", ICS 2005)."""


@dataclass(frozen=True)
class CapacitySettings:
    """Which nodes may sleep, and what keeps them awake. 0 bounds nothing."""

    policies: tuple[str, ...] = row(
        NAMES,
        "--capacity",
        "Capacity policies to compare, each with every scheduling policy: always-on, timeout:10min, energy-aware,"
        " green-pool:5%, break-even, priced, forecast:1h, two-level:80%, ols:1h, profile:1h, or front for many of them;"
        " the first is what others are measured against.",
        default=("always-on",),
        example=("always-on", "timeout:10min", "ols:1h"),
    )
    sla: float = row(
        number(1.0),
        "--sla",
        "Mean slowdown, 1 + wait / max(10 s, run), that a what-if has to keep before nodes may sleep.",
        default=DEFAULT_SLA,
    )
    depths: tuple[str, ...] = row(
        NAMES,
        "--depth",
        "Sleep depths that are used: powersave, standby, off; of several the deeper follow when they pay; or deepest.",
        default=("deepest",),
        example=("standby",),
    )
    keep_hot: int = row(
        whole_number(0),
        "--keep-hot",
        "Nodes that never sleep all at once: so many stay awake, with or without jobs.",
        default=0,
        unit="nodes",
    )
    wake_ahead_s: int = row(
        DURATION,
        "--wake-ahead",
        "Nodes that the first waiting job will need are woken, or kept awake, this long before its planned start.",
        default="0s",
    )
    min_awake_s: int = row(
        DURATION,
        "--min-awake",
        "A node that was woken stays awake at least this long.",
        default="0s",
        unit="per node",
    )
    min_asleep_s: int = row(
        DURATION,
        "--min-asleep",
        "A node that was put to sleep is woken within this time only for a job.",
        default="0s",
        unit="per node",
    )
    cycles_per_day: int = row(
        whole_number(0),
        "--cycles-per-day",
        "How often a node may be put to sleep within a day; 0: no bound.",
        default=0,
        unit="per node",
    )
    order: str = row(
        choice("number", "idle-age", "wear"),
        "--sleep-order",
        "Which idle nodes sleep first: the highest-numbered, the longest idle, or those with the fewest cycles today.",
        default="number",
    )
    sleeps_per_min: int = row(
        whole_number(0),
        "--sleep-rate",
        "Nodes that may be put to sleep within a minute; 0: no bound.",
        default=0,
        unit="nodes per minute",
    )
    wakes_per_min: int = row(
        whole_number(0),
        "--wake-rate",
        "Nodes that may be woken within a minute; 0: no bound.",
        default=0,
        unit="nodes per minute",
    )
    sleep_ramp_w: float | None = row(
        POWER,
        "--sleep-ramp",
        "How much the machine's draw may fall within a minute by nodes that sleep.",
        example="5kW",
        unit="per minute",
    )
    wake_ramp_w: float | None = row(
        POWER,
        "--wake-ramp",
        "How much the machine's draw may rise within a minute by nodes that wake.",
        example="5kW",
        unit="per minute",
    )
    cycle_cost: float = row(
        number(0.0),
        "--cycle-cost",
        "What a power cycle of a node costs in wear, in the prices' currency: the dearer, the longer nodes stay awake.",
        default=0.0,
        unit="per cycle",
    )

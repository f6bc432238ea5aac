"""The settings of the broker of a federation: its sites, how old their answers may be, and whether it submits."""

from dataclasses import dataclass
from pathlib import Path

from offpeak.model.weighing import WEIGHTS_EXAMPLE, Weights
from offpeak.settings.kinds import DURATION, PATH, WEIGHTS, choice, row, whole_number

BY_GOAL = "goal"
TOGETHER = ("mcmf", "round-robin")
"""Policies that place the jobs of a cycle together."""


@dataclass(frozen=True)
class BrokerSettings:
    """The sites of a federation, and how `offpeak submit` and `broker` use them."""

    sites: Path = row(PATH, "File of the sites of the federation.", default="/etc/offpeak/sites.toml")
    mode: str = row(
        choice("shadow", "active"),
        "shadow: only record the selected site of a job; active: submit the job there.",
        default="shadow",
        flag="--broker-mode",
    )
    poll_s: int = row(DURATION, "Interval at which `offpeak broker` polls the sites.", default="15s")
    stale_s: int = row(
        DURATION, "Maximum age of a site's last response: a site with an older one is left out.", default="2min"
    )
    timeout_s: int = row(DURATION, "Time limit for a response of a site.", default="5s", flag="--site-timeout")
    policy: str = row(
        choice(BY_GOAL, *TOGETHER),
        "goal: place each job at once, by its goal; mcmf: place the jobs of a cycle together, at the least weighted "
        "sum of time, cost, CO2 and energy; round-robin: by turns, in the same cycles.",
        default=BY_GOAL,
        flag="--broker-policy",
    )
    cycle_s: int = row(
        DURATION,
        "Interval of the cycles of mcmf and round-robin: a job waits for its site so long at most.",
        default="1min",
        flag="--placement-cycle",
    )
    max_per_cycle: int = row(
        whole_number(1, 10_000),
        "Most jobs in a cycle, the oldest first. Each site can have a bound of its own in the file of sites.",
        default=1000,
    )
    weights: Weights = row(
        WEIGHTS,
        "Shares of time, cost, co2 and energy in per cent by which mcmf places jobs without a goal of their own.",
        default=WEIGHTS_EXAMPLE,
    )
    queue_limit: int = row(
        whole_number(0),
        "Most pending jobs at a site that the choice by goal takes for a job without a latest finish.",
        default=10,
    )
    token_file: Path | None = row(
        PATH,
        "File of mode 0600 with the token that portals present to `offpeak broker`.",
        example="/etc/offpeak/broker.token",
    )
    secret_file: Path | None = row(
        PATH,
        "File of mode 0600 with the key with which `offpeak broker` signs the state of this site's agent for other "
        "brokers.",
        example="/etc/offpeak/snapshot.key",
    )

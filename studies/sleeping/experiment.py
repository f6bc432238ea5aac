"""What is varied: the rule that puts nodes to sleep, each over the range of its parameter."""

from collections.abc import Mapping
from dataclasses import dataclass

ALWAYS_ON = "always-on"
TIMEOUT, POOL, FORECAST, LATE, OLS = "time-out", "green pool", "forecast", "forecast-late", "ols:1h"

FAMILIES: Mapping[str, tuple[str, ...]] = {
    TIMEOUT: tuple(f"timeout:{idle}" for idle in ("5min", "10min", "1000s", "30min", "1h", "2h")),
    POOL: tuple(f"green-pool:{share}" for share in ("1%", "2%", "5%", "10%", "20%")),
    FORECAST: tuple(f"forecast:{worth}" for worth in ("20min", "40min", "1h", "90min", "3h")),
    LATE: tuple(f"forecast-late:{worth}" for worth in ("20min", "40min", "1h", "90min", "3h")),
    OLS: tuple(f"ols:1h:{sla}" for sla in (5, 20, 50, 200)),
}
"""Policies of one parameter, in its order."""

AT_ONCE, BREAK_EVEN, TWO_LEVEL = "energy-aware", "break-even", "two-level"
SINGLE = (AT_ONCE, BREAK_EVEN, TWO_LEVEL)
"""Policies without one: two-level finds its own level."""

EQUAL_ENERGY_PCT: Mapping[str, int] = {"KTH-SP2": 80, "CTC-SP2": 75, "SDSC-BLUE": 78}
"""The share of the idle energy at which families are compared, by how a log's name begins; fixed before any run."""

POLICIES = (ALWAYS_ON, *(policy for family in FAMILIES.values() for policy in family), *SINGLE)


@dataclass(frozen=True)
class Experiment:
    """One replay of a log under a policy, with submit times shifted by the seed (`seed`, `replay`)."""

    log: str
    seed: int
    replay: int
    policy: str


@dataclass(frozen=True)
class Replays:
    """How often each policy is replayed, and the seed of it all."""

    count: int
    seed: int

    def of(self, policy: str) -> range:
        """Return the numbers of a policy's replays: a quarter of them where they take long."""
        return range(-(-self.count // 4) if policy in FAMILIES[OLS] else self.count)


def experiments(log: str, policy: str, replays: Replays) -> list[Experiment]:
    """Return the experiments of a policy, one a replay."""
    return [Experiment(log, replays.seed, replay, policy) for replay in replays.of(policy)]

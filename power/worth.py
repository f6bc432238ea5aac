"""The levers of a site - order, sleep, time, place - and what each would have saved, and cost in waiting.

Order is the estimate's own. Sleep and time are replayed here, on the last days of the log, because a what-if an hour
takes its time. Place, which is to run jobs on other clusters, needs more sites than one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.settings.table import Settings
from power.capacities import capacity_named
from power.worth_case import lately, with_nodes
from sim_backend.case import fleet_of
from sim_backend.estimate import CapabilitySaving, SavingsEstimate, saving_of
from sim_backend.policy import Policy
from sim_backend.replications import ReplicationSpread, replay_each, spreads_of

LEVERS = (
    ("sleep", "timeout:10min"),
    ("sleep", "break-even"),
    ("sleep", "forecast:1h"),
    ("sleep", "ols:1h"),
    ("time", "profile:1h:3"),
    ("time", "profile:1h"),
)
"""The capacity policies that stand for a lever."""

DAYS, REPLAYS = 30, 10


@dataclass(frozen=True)
class Lever:
    """What one policy of a lever would have saved; None where that is not measured. `note` says on what, or why not."""

    name: str
    saving: CapabilitySaving | None
    note: str = ""


def levers(
    estimate: SavingsEstimate, settings: Settings, baseline: Policy, *, progress: Callable[[int], None] = lambda _: None
) -> tuple[Lever, ...]:
    """Return a row a policy of each lever. `progress` is told how many of len(LEVERS) * REPLAYS are done.

    BadInput if the nodes cannot sleep as the settings say, or the baseline cannot be replayed with nodes that do.
    """
    spreads, note = _replayed(estimate, settings, baseline, progress)
    measured = zip(LEVERS, spreads, strict=True)
    return (
        *(Lever("order", saving) for saving in estimate.savings),
        *(Lever(name, _saving(estimate, name, policy, spread), note) for (name, policy), spread in measured),
        Lever("place", None, "not measured: it needs other sites, with their logs and prices"),
    )


def _saving(estimate: SavingsEstimate, lever: str, policy: str, spread: ReplicationSpread) -> CapabilitySaving:
    return replace(saving_of(spread, estimate.used, lever), policy=policy)


def _replayed(
    estimate: SavingsEstimate, settings: Settings, baseline: Policy, progress: Callable[[int], None]
) -> tuple[Sequence[ReplicationSpread], str]:
    """Return the spreads of the policies of LEVERS against the baseline, and what they are replayed on.

    Each is compared with the baseline alone: beside a policy under which jobs end days later, all would be charged for
    these days, and sleeping through them would look like a saving.
    """
    prepared = estimate.prepared
    case, first = lately(prepared.case, DAYS)
    case, note = with_nodes(case, prepared.units_per_node)
    fleet = fleet_of(case)
    policies = [baseline.on(capacity_named(policy, fleet, settings.capacity)) for _, policy in LEVERS]

    def draw_w(rng: Generator) -> Float64:
        return prepared.power.draw_w(rng)[first:]

    spreads = [
        spreads_of(
            replay_each(
                case,
                (baseline, policy),
                range(REPLAYS),
                seed=settings.power.seed,
                draw_power=draw_w if prepared.power.is_drawn else None,
                progress=lambda done, before=at * REPLAYS: progress(before + done),  # type: ignore[misc]
            )
        )[1]
        for at, policy in enumerate(policies)
    ]
    return spreads, f"{REPLAYS} replays of the last {DAYS} days; {note}"

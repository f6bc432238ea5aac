"""The levers of a site (order, sleep, time, place), what each would have saved, and how much longer jobs would have
waited.

The estimate itself measures order. Sleep and time are replayed here, on nodes that can sleep and only on the last days
of the log, because an hourly what-if is slow. Place, running jobs on other clusters, needs several sites.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.random import Generator

from offpeak.model.arrays import Float64
from offpeak.model.constants import DAY_S
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_class_file import bundled_node_class
from offpeak.settings.table import Settings
from power.capacity.registry import with_capacity
from sim_backend.case.replay_case import ASSUMED_CLASS, ReplayCase, powered_pools
from sim_backend.comparison.replications import ReplicationSpread, replay_each, spreads_of
from sim_backend.estimate import CapabilitySaving, SavingsEstimate, saving_of
from sim_backend.replay.policy import Policy
from sim_backend.replay.powered import PoweredMachine


def take_last_days(case: ReplayCase, days: int) -> tuple[ReplayCase, int]:
    """Return the case with the jobs that were submitted in the last days, and the index of the first of them."""
    submit_s = case.jobs.submit_s
    first = int(np.searchsorted(submit_s, submit_s[-1] - days * DAY_S))
    kept = np.arange(first, len(submit_s))
    return replace(case, jobs=case.jobs.take(kept), node_power_w=case.node_power_w[first:]), first


def add_sleeping_nodes(case: ReplayCase, units_per_node: int) -> tuple[ReplayCase, str]:
    """Return the case with nodes that can sleep, and a description of them.

    If their class is unknown, an assumed class is scaled to the idle power of the case.
    """
    if case.nodes is not None:
        return case, f"nodes are of the class {case.nodes.node_class.name}"
    if case.pools is not None:
        return case, f"nodes are of the classes {', '.join(sorted({each.name for each in case.pools.classes}))}"
    idle_w = case.machine.idle_w * units_per_node
    if case.is_mixed and case.cluster is not None:
        idle_w = case.machine.idle_w * case.machine.size / case.cluster.nodes
    assumed = scale_node_class(bundled_node_class(ASSUMED_CLASS), idle_w)
    message = f"nodes are assumed to sleep like the class {ASSUMED_CLASS}, scaled to {idle_w:g} W idle"
    if case.is_mixed and case.cluster is not None:
        pools = powered_pools(case.cluster, assumed, units_per_node)
        message = f"{message}, or as power_class says; --node-class names another"
        if case.priorities is not None:
            message += "; jobs start by submission there, not by Slurm's multifactor priority"
        return replace(case, pools=pools, priorities=None), message
    nodes = PoweredMachine(case.machine.size, units_per_node, assumed)
    return replace(case, nodes=nodes), f"{message}; --node-class names another"


def scale_node_class(node_class: NodeClass, idle_w: float) -> NodeClass:
    """Return the class with all power figures scaled so that an idle node draws `idle_w`."""
    times = idle_w / node_class.idle_w

    def less(transition: Transition) -> Transition:
        return replace(transition, power_w=transition.power_w * times)

    def lighter(depth: DepthPower) -> DepthPower:
        return replace(depth, power_w=depth.power_w * times, enter=less(depth.enter), leave=less(depth.leave))

    return replace(
        node_class,
        idle_w=idle_w,
        running=tuple((used, power_w * times) for used, power_w in node_class.running),
        depths=tuple(map(lighter, node_class.depths)),
    )


LEVERS = (
    ("sleep", "timeout:10min"),
    ("sleep", "break-even"),
    ("sleep", "forecast:1h"),
    ("sleep", "ols:1h"),
    ("time", "profile:1h:3"),
    ("time", "profile:1h"),
)
"""The capacity policies of each lever."""

DAYS, REPLAYS = 30, 10


@dataclass(frozen=True)
class Lever:
    """What one policy of a lever would have saved, None if not measured. `note` says on what data, or why not."""

    name: str
    saving: CapabilitySaving | None
    note: str = ""


def measure_levers(
    estimate: SavingsEstimate, settings: Settings, baseline: Policy, *, progress: Callable[[int], None] = lambda _: None
) -> tuple[Lever, ...]:
    """Return a row for each policy of each lever. `progress` is called with the number of finished replays, of
    len(LEVERS) * REPLAYS.

    Raises BadInput if the nodes cannot sleep as configured, or the baseline cannot be replayed with sleeping nodes.
    """
    spreads, note = _replay_levers(estimate, settings, baseline, progress)
    measured = zip(LEVERS, spreads, strict=True)
    return (
        *(Lever("order", saving) for saving in estimate.savings),
        *(Lever(name, _make_saving(estimate, name, policy, spread), note) for (name, policy), spread in measured),
        Lever("place", None, "not measured: it needs other sites, with their logs and prices"),
    )


def _make_saving(estimate: SavingsEstimate, lever: str, policy: str, spread: ReplicationSpread) -> CapabilitySaving:
    return replace(saving_of(spread, estimate.used, lever), policy=policy)


def _replay_levers(
    estimate: SavingsEstimate, settings: Settings, baseline: Policy, progress: Callable[[int], None]
) -> tuple[Sequence[ReplicationSpread], str]:
    """Return the spreads of the policies of LEVERS against the baseline, and a description of the replayed data.

    Each policy is compared with the baseline separately. In a common comparison with a policy under which jobs end days
    later, all would be charged for these days, and sleeping through them would look like a saving.
    """
    prepared = estimate.prepared
    case, first = take_last_days(prepared.case, DAYS)
    case, note = add_sleeping_nodes(case, prepared.units_per_node)

    def policies_at(policy: str, at: ReplayCase) -> tuple[Policy, Policy]:
        return baseline, with_capacity(baseline, policy, at, settings.capacity)

    def draw_w(rng: Generator) -> Float64:
        return prepared.power.draw_w(rng)[first:]

    spreads = [
        spreads_of(
            replay_each(
                case,
                policies_at(policy, case),
                range(REPLAYS),
                seed=settings.power.seed,
                draw_power=draw_w if prepared.power.is_drawn else None,
                policies_at=partial(policies_at, policy),
                progress=lambda done, before=at * REPLAYS: progress(before + done),  # type: ignore[misc]
            ),
            case.prices.laid.weeks,
        )[1]
        for at, (_, policy) in enumerate(LEVERS)
    ]
    return spreads, f"{REPLAYS} replays of the last {DAYS} days; {note}"

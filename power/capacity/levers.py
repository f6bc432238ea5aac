"""The levers of a site (order, sleep, delay, caps): what each would have saved, its harm, and which are recommended.

The estimate itself measures order. The others are replayed here, on nodes that can sleep and only on the last days of
the log, because an hourly what-if is slow. What is recommended is replayed as a whole: savings do not add up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from offpeak.errors import BadInput
from offpeak.executor import HERE, Executor
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_MWH
from offpeak.model.node_class import DepthPower, NodeClass, Transition
from offpeak.model.node_class_file import bundled_node_class
from offpeak.settings.table import Settings
from plugin.queue_hook.facts import PriceIntegral
from plugin.queue_hook.start_times import LEAST_SAVING
from power.capacity.registry import with_capacity
from sim_backend.case.electricity import decision_series
from sim_backend.case.replay_case import ASSUMED_CLASS, ReplayCase, powered_pools
from sim_backend.case.site_jobs import round_memory
from sim_backend.comparison.compare import compare, meters_of, usage_of
from sim_backend.comparison.outcome import PolicyOutcome, charges_of
from sim_backend.comparison.replications import (
    DrawPower,
    ReplicationSpread,
    alignment_interval_of,
    interval_of,
    replay_each,
    shifted,
    spreads_of,
)
from sim_backend.estimate import CapabilitySaving, SavingsEstimate, saving_of
from sim_backend.replay.policy import Policy
from sim_backend.replay.powered import PoweredMachine


def take_last_days(case: ReplayCase, days: int) -> tuple[ReplayCase, int]:
    """Return the case with the jobs that were submitted in the last days, and the index of the first of them."""
    submit_s = case.jobs.submit_s
    first = int(np.searchsorted(submit_s, submit_s[-1] - days * DAY_S))
    kept = np.arange(first, len(submit_s))
    return replace(case, jobs=case.jobs.take(kept), node_power_w=case.node_power_w[first:]), first


def days_of_jobs(submit_s: Int64, most: int) -> int:
    """Return how many last days, of at most DAYS and at least one, have at most so many jobs."""
    within_s = int(submit_s[-1] - submit_s[-most]) if len(submit_s) > most else DAYS * DAY_S
    return min(DAYS, max(within_s // DAY_S, 1))


def add_sleeping_nodes(case: ReplayCase, units_per_node: int) -> tuple[ReplayCase, str]:
    """Return the case with nodes that can sleep, described; an assumed class is scaled to the case's idle power."""
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

    enclosure = node_class.enclosure
    return replace(
        node_class,
        enclosure=enclosure and replace(enclosure, overhead_w=enclosure.overhead_w * times),
        idle_w=idle_w,
        running=tuple((used, power_w * times) for used, power_w in node_class.running),
        depths=tuple(map(lighter, node_class.depths)),
    )


LEVERS = (("sleep", "timeout:10min"), ("sleep", "break-even"), ("sleep", "forecast:1h"), ("caps", "profile:1h:3"))
"""The capacity policies of each lever."""

DAYS, REPLAYS = 30, 10
"""The most replayed days of the log, and how often."""

MOST_JOBS, MOST_WIDE_JOBS = 50_000, 10_000
"""So many jobs are replayed at most, and if too many requests differ: fewer days of a log, and at least one."""

LONGEST_DELAY_S, CONSENTING_SHARE, FEW_USERS = DAY_S, 0.2, 10
"""The delay is measured as if this share of users, drawn anew in each replay, let their jobs wait for so long; of a log
of fewer users, as if the owners of this share of jobs did."""

MOST_REQUESTS = 5_000
"""Beyond so many different requests replays are slow and need much memory: then the memory of requests is rounded."""
HARDLY_LONGER_S = 600
"""A recommended lever makes jobs wait at most so much longer on average."""


@dataclass(frozen=True)
class Lever:
    """What one policy of a lever would have saved by so many replays, None if not measured: `note` says why not, or
    what was assumed.
    """

    name: str
    saving: CapabilitySaving | None
    note: str = ""
    replays: int = 0


@dataclass(frozen=True)
class Recommendation:
    """The levers that pay together within the bounds of harm, as settings of the agent; `saving` is of them together.

    `queue` is "off" and `capacity` "always-on" if that lever does not pay; `allows_delay`: delays of jobs pay.
    """

    saving: CapabilitySaving
    queue: str = "off"
    capacity: str = "always-on"
    limit_capacity: bool = False
    allows_delay: bool = False


@dataclass
class LeverMeasurement:
    """The replays of the levers on the last days of an estimate's log; those that were made are not repeated.

    `policies` are those of the estimate. Raises BadInput if the nodes cannot sleep as configured.
    """

    estimate: SavingsEstimate
    settings: Settings
    policies: Sequence[Policy]
    executor: Executor = HERE
    _outcomes: dict[str, list[tuple[PolicyOutcome, ...]]] = field(default_factory=dict)
    _delays: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prepared, agent = self.estimate.prepared, self.settings.agent
        self.days, self._most = days_of_jobs(prepared.case.jobs.submit_s, MOST_JOBS), MOST_JOBS
        case, self._first = take_last_days(prepared.case, self.days)
        requests = len(np.unique(case.jobs.request)) if case.is_mixed else 0  # type: ignore[arg-type]
        self.is_wide, self._rounding = requests > MOST_REQUESTS, ""
        if self.is_wide:
            self.days, self._most = days_of_jobs(prepared.case.jobs.submit_s, MOST_WIDE_JOBS), MOST_WIDE_JOBS
            case, self._first = take_last_days(prepared.case, self.days)
            requests = len(np.unique(case.jobs.request))  # type: ignore[arg-type]
        if self.is_wide and case.cluster is not None and len(case.jobs) <= self._most:
            jobs, rounded, classes = round_memory(case.jobs, case.requests, case.cluster)
            case = replace(case, jobs=jobs, requests=rounded, classes=classes)
            self._rounding = f"; memory rounded, so {len(rounded):,} requests differ, not {requests:,}"
        self._awake = case
        self._case, self._note = add_sleeping_nodes(case, prepared.units_per_node)
        capacity = self.settings.capacity
        self._capacity = replace(capacity, cycles_per_day=capacity.cycles_per_day or agent.cycles_per_day)

    def measure(self, replays: int = REPLAYS, progress: Callable[[int], None] = lambda _: None) -> tuple[Lever, ...]:
        """Return each lever's policies as rows by so many replays; `progress` gets the number done."""
        rows = [Lever("order", saving, replays=each.replays) for saving, each in self._orders()]
        for number, (name, policy) in enumerate(LEVERS):
            rows.append(self._capacity_lever(name, policy, replays))
            progress(number + 1)
        rows.append(self._delay_lever(replays))
        rows.append(Lever("node caps", None, "no cap curve of these nodes is known"))
        rows.append(Lever("place", None, "it needs other sites, with their logs and prices"))
        return tuple(rows)

    def recommend(self, levers: Sequence[Lever], replays: int = REPLAYS) -> Recommendation | None:
        """Return what pays within the bounds of harm, replayed as a whole; None if nothing does.

        Of capacity policies that save the same within their ranges the agent's own is taken. An order is left out if
        nodes that sleep save more without it.
        """
        good = [each for lever in levers if (each := lever.saving) and each.pays and self.is_harmless(each)]
        alone = max((s for s in good if s.capability in {"sleep", "caps"}), key=_share, default=None)
        for saving in good:
            is_own = alone is not None and saving.policy == self.settings.agent.capacity
            if is_own and saving.share_pct.high >= alone.share_pct.low:  # type: ignore[union-attr]
                alone = saving
        order = max((s for s in good if s.capability == "order" and s.policy in ORDERS), key=_share, default=None)
        # A delay harms those only who permit it.
        delays = any(each.name == "delay" and each.saving is not None and each.saving.pays for each in levers)
        slept = None
        if alone is not None:
            slept = Recommendation(alone, "off", alone.policy, alone.capability == "caps", delays)
        if order is None:
            return slept
        if slept is None:
            return Recommendation(order, order.policy, allows_delay=delays)
        ordering = next(policy for policy in self.policies if policy.name == order.policy)
        together = self._saving("recommended", slept.capacity, replays, ordering)
        if not self.is_harmless(together) or _share(together) < _share(slept.saving):
            return slept
        return replace(slept, saving=together, queue=order.policy)

    def is_harmless(self, saving: CapabilitySaving) -> bool:
        """Whether jobs wait at most HARDLY_LONGER_S longer, and nodes sleep no more often than the agent lets them."""
        cycles = saving.cycles_per_node_day or 0.0
        waits = saving.wait_is_noise or saving.wait_change_s <= HARDLY_LONGER_S
        return waits and cycles <= self.settings.agent.cycles_per_day

    def _orders(self) -> Sequence[tuple[CapabilitySaving, ReplicationSpread]]:
        return tuple(zip(self.estimate.savings, self.estimate.spreads[1:], strict=True))

    def _too_wide(self) -> str:
        """Return why the levers of sleep, delay and caps are not replayed, "" if they are."""
        jobs = len(self._awake.jobs)
        if jobs <= self._most or not self._awake.is_mixed:
            return ""
        requests = f", and more than {MOST_REQUESTS:,} different requests" if self.is_wide else ""
        return f"the last day has {jobs:,} jobs, more than {self._most:,}, on nodes that differ{requests}"

    def _capacity_lever(self, name: str, policy: str, replays: int) -> Lever:
        if why := self._too_wide():
            return Lever(name, None, why)
        try:
            saving = self._saving(name, policy, replays)
        except BadInput as problem:
            return Lever(name, None, f"{problem}; {problem.hint}")
        return Lever(name, saving, f"{self._note}{self._rounding}", replays)

    def _saving(self, name: str, capacity: str, replays: int, ordering: Policy | None = None) -> CapabilitySaving:
        """Return the saving of a capacity policy, with the order of `ordering` in place of the baseline's.

        Each is compared with the baseline separately. In a common comparison with a policy under which jobs end days
        later, all would be charged for these days, and sleeping through them would look like a saving.
        """
        baseline = self.policies[0]

        def policies_at(case: ReplayCase) -> tuple[Policy, Policy]:
            return baseline, with_capacity(ordering or baseline, capacity, case, self._capacity)

        policies = policies_at(self._case)
        done = self._outcomes.setdefault(policies[1].name, [])
        done += replay_each(
            self._case,
            policies,
            range(len(done), replays),
            seed=self.settings.power.seed,
            draw_power=self._draw_power,
            policies_at=policies_at,
            executor=self.executor,
        )
        text = capacity if ordering is None else policies[1].name
        return replace(self._saving_of(spreads_of(done, self._case.prices.laid.weeks)[1], name), policy=text)

    def _saving_of(self, spread: ReplicationSpread, lever: str) -> CapabilitySaving:
        submit_s, used = self._awake.jobs.submit_s, self.estimate.used
        period_s = min(max(int(submit_s[-1] - submit_s[0]), DAY_S), used.until_s - used.begin_s)
        return saving_of(spread, used, lever, period_s=period_s)

    @property
    def _draw_power(self) -> DrawPower | None:
        power, first = self.estimate.prepared.power, self._first
        return (lambda rng: power.draw_w(rng)[first:]) if power.is_drawn else None

    def _delay_lever(self, replays: int) -> Lever:
        if why := self._too_wide():
            return Lever("delay", None, why)
        weeks, seed = self._awake.prices.laid.weeks, self.settings.power.seed
        awake, draw_power, baseline = self._awake, self._draw_power, self.policies[0]

        def effects_of(number: int) -> tuple[float, float, float]:
            rng = np.random.default_rng([seed, number])
            case = awake.aligned(weeks.draw(number, seed)) if weeks else awake
            return _delay_effects(shifted(case, rng, draw_power), baseline, rng)

        self.executor.run(effects_of, range(len(self._delays), replays), self._delays.__setitem__)
        alignments = min(replays, len(weeks.offsets_s)) if weeks else 1
        interval = interval_of if alignments == 1 else alignment_interval_of
        in_order = [self._delays[number] for number in sorted(self._delays)]
        effects = {
            name: interval(np.array(values))
            for name, values in zip(("saving_pct", "cost", "mean_wait_s"), zip(*in_order, strict=True), strict=True)
        }
        hours = f"up to {LONGEST_DELAY_S // HOUR_S}h"
        saving = self._saving_of(ReplicationSpread(hours, replays, effects, effects, alignments), "delay")
        is_by_user = len(np.unique(self._awake.jobs.user)) >= FEW_USERS
        whose = f"{CONSENTING_SHARE:.0%} of {'users' if is_by_user else 'jobs'}, drawn anew in each replay"
        return Lever("delay", saving, f"{hours} for {whose}{self._rounding}", replays)


ORDERS = ("greedy", "knapsack")
"""The policies of the agent that order the queue by power."""


def _share(saving: CapabilitySaving) -> float:
    return saving.share_pct.middle


def _delay_effects(case: ReplayCase, baseline: Policy, rng: Generator) -> tuple[float, float, float]:
    """Return what delays save [% of the bill], what they add to the bill, and to the mean wait [s]."""
    case = replace(case, nodes=None, pools=None)
    user, number = np.unique(case.jobs.user, return_inverse=True)
    by_user = len(user) >= FEW_USERS
    consents = rng.random(len(user) if by_user else len(number)) < CONSENTING_SHARE
    release_s = release_times_s(case, consents[number] if by_user else consents)
    order = np.argsort(release_s, kind="stable")
    jobs = replace(case.jobs, submit_s=release_s).take(order)
    made = [
        compare(each, (baseline,)) for each in (case, replace(case, jobs=jobs, node_power_w=case.node_power_w[order]))
    ]
    begin_s, until_s = made[0].begin_s, max(each.until_s for each in made)
    priced = replace(case, prices=replace(case.prices, laid=case.prices.laid.until(until_s)))
    meters = meters_of(priced, until_s)
    before, after = (
        charges_of(usage_of(each.case, each.runs[0].schedule, begin_s, until_s), meters).cost.total for each in made
    )
    starts_s = [float(each.runs[0].schedule.start_s.mean()) for each in made]
    saving_pct = 100 * (before - after) / abs(before) if before else 0.0
    return saving_pct, (after - before) / J_PER_MWH, starts_s[1] - starts_s[0]


def release_times_s(case: ReplayCase, consents: NDArray[np.bool_]) -> Int64:
    """Return when each job may start [trace s]: at its submission, or a consenting one at the cheapest of the hours
    that begin within LONGEST_DELAY_S, by its estimate, if that saves as much as the agent demands of a delay.
    """
    submit_s, run_s = case.jobs.submit_s, case.jobs.estimate_s
    until_s = int((submit_s + run_s).max()) + LONGEST_DELAY_S + HOUR_S
    prices = replace(case.prices, laid=case.prices.laid.until(until_s))
    integral, offset_s = PriceIntegral(decision_series(prices, case.carbon)), prices.laid.offset_s
    hour_s = (submit_s + offset_s) // HOUR_S * HOUR_S - offset_s
    tried_s = [submit_s, *(hour_s + hour * HOUR_S for hour in range(1, LONGEST_DELAY_S // HOUR_S + 1))]
    costs = np.array([integral.per_watt(at_s + offset_s, run_s) for at_s in tried_s])
    best = np.nan_to_num(costs, nan=np.inf).argmin(axis=0)
    jobs = np.arange(len(best))
    least = costs[best, jobs]
    waits = consents & (least <= costs[0] - LEAST_SAVING * np.abs(costs[0]))
    return np.where(waits, np.array(tried_s)[best, jobs], submit_s)

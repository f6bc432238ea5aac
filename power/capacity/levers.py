"""The levers of a site (order, sleep, peak shaving, ...): what each would have saved, its harm, and which to take.

The estimate itself measures order. The others are replayed here, on nodes that can sleep and only on the last days of
the log, because an hourly what-if is slow. What is recommended is replayed as a whole: savings do not add up.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from offpeak.display import duration_text
from offpeak.errors import BadInput, BadInventory
from offpeak.executor import THREADS, Executor
from offpeak.machines.inventory_file import read_inventory
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, J_PER_KWH, YEAR_S
from offpeak.model.flexibility import Tier
from offpeak.model.jobs import Jobs
from offpeak.model.node_cap import CappableNode, best_priced_cap, cap_curve_named
from offpeak.model.node_class import scale_node_class
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.step_series import integral_between
from offpeak.model.units import parse_duration_s
from offpeak.plugin.capacity.peak_shaving import PeakTarget
from offpeak.plugin.capacity.policies import always_on
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.power.capacity.registry import expand_front, make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import (
    ASSUMED_CLASS,
    PoweredPools,
    ReplayCase,
    fleet_of,
    pool_fleets_of,
    powered_pools,
)
from offpeak.sim_backend.case.site_jobs import round_memory
from offpeak.sim_backend.comparison.outcome import PolicyOutcome, saving_pct
from offpeak.sim_backend.comparison.replications import (
    PoliciesAt,
    ReplicationSpread,
    replay_each,
    spreads_of,
    without_demand,
)
from offpeak.sim_backend.estimate import Bounds, CapabilitySaving, SavingsEstimate, saving_of
from offpeak.sim_backend.nodes.power_curve import power_curve
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak.sim_backend.replay.policy import Policy

LEVERS = (("sleep", "timeout:10min"), ("sleep", "break-even"), ("sleep", "forecast:1h"), ("caps", "profile:1h:3"))
"""The capacity policies of each lever."""

LIMITING = tuple(policy for name, policy in LEVERS if name == "caps")
"""Those that decide how many nodes jobs get, by a slow what-if each hour."""

DAYS, REPLAYS = 182, 10
"""The most replayed days of the log, and how often."""

LIMIT_DAYS, LIMIT_REPLAYS = 91, 4
"""The same of the LIMITING policies."""

MOST_JOBS, MOST_WIDE_JOBS = 50_000, 10_000
"""So many jobs are replayed at most, and if too many requests differ: fewer days of a log, and at least one."""

TIERS = {Tier.T1: (0.1, 6 * HOUR_S), Tier.T2: (0.3, DAY_S)}
"""The share of the jobs that are taken to be of a tier, and how long they may wait, where the site declares none."""

PEAK_TARGET = 0.95
"""The target of peak shaving that is tried if none is set, as a share of the highest quarter-hour of today."""

MOST_REQUESTS = 5_000
"""Beyond so many different requests replays are slow and need much memory: then the memory of requests is rounded."""
HARDLY_LONGER_S = 600
"""A recommended lever makes jobs wait at most so much longer on average."""

PEAK_SHAVING = "peak shaving"

ORDERS = ("greedy", "knapsack")
"""The policies of the agent that order the queue by power."""


def with_capacity(
    policy: Policy, text: str, case: ReplayCase, settings: CapacitySettings, peak: PeakTarget | None = None
) -> Policy:
    """Return the scheduling policy with a capacity policy for the nodes of the case, for each pool where they differ.

    Nodes of a class that cannot sleep stay on. Nodes that differ know no `peak` shaving. Raises BadInput.
    """
    if not isinstance(case.nodes, PoweredPools):
        return policy.on(make_capacity_policy(text, fleet_of(case), settings), peak)
    if settings.keep_hot > case.nodes.nodes:
        raise BadInput(f"--keep-hot {settings.keep_hot}: the machine has {case.nodes.nodes} nodes", hint="give fewer")
    made = tuple(_for_pool(text, fleet, settings) for fleet in pool_fleets_of(case))
    names = {each.name for each in made if not each.keeps_all_awake}
    return policy.on_pools(names.pop() if len(names) == 1 else text.strip(), made)


def _for_pool(text: str, fleet: Fleet, settings: CapacitySettings) -> CapacityPolicy:
    own = replace(settings, keep_hot=fleet.part_of(settings.keep_hot))
    return make_capacity_policy(text, fleet, own) if fleet.node_class.depths else always_on(fleet, own, "")


def take_last_days(case: ReplayCase, days: int) -> tuple[ReplayCase, int]:
    """Return the case with the jobs that were submitted in the last days, and the index of the first of them."""
    submit_s = case.jobs.submit_s
    first = int(np.searchsorted(submit_s, submit_s[-1] - days * DAY_S))
    kept = np.arange(first, len(submit_s))
    return replace(case, jobs=case.jobs.take(kept), node_power_w=case.node_power_w[first:]), first


def days_of_jobs(submit_s: Int64, most: int) -> int:
    """Return how many last days, of at most DAYS and at least one, have at most so many jobs."""
    within_s = int(submit_s[-1] - submit_s[-min(len(submit_s), most)])
    days = within_s // DAY_S if len(submit_s) > most else -(-within_s // DAY_S)
    return min(DAYS, max(days, 1))


def add_sleeping_nodes(case: ReplayCase, units_per_node: int) -> tuple[ReplayCase, str]:
    """Return the case with nodes that can sleep, described; an assumed class is scaled to the case's idle power."""
    if case.nodes is not None:
        names = sorted({each.name for each in case.nodes.classes})
        return case, f"nodes are of the {'class' if len(names) == 1 else 'classes'} {', '.join(names)}"
    idle_w = case.machine.idle_w * units_per_node
    if case.is_mixed and case.cluster is not None:
        idle_w = case.machine.idle_w * case.machine.size / case.cluster.nodes
    assumed = scale_node_class(bundled_node_class(ASSUMED_CLASS), idle_w)
    message = f"nodes are assumed to sleep like the class {ASSUMED_CLASS}, scaled to {idle_w:g} W idle"
    if case.is_mixed and case.cluster is not None:
        pools = powered_pools(case.cluster, assumed, units_per_node)
        message = f"{message}, or as power_class says; --node-class names another"
        return replace(case, nodes=pools), message
    nodes = PoweredMachine(case.machine.size, units_per_node, assumed)
    return replace(case, nodes=nodes), f"{message}; --node-class names another"


def all_policies(disciplines: tuple[Policy, ...], case: ReplayCase, settings: Settings) -> tuple[Policy, ...]:
    """Return each scheduling policy with each capacity policy, then the same with peak shaving if it has a target."""
    if case.nodes is None:
        return disciplines
    names, plan = expand_front(settings.capacity.policies), settings.plan
    peaks: list[PeakTarget | None] = [None]
    if plan.peak_target_w is not None and not why_no_shaving(case):
        peaks.append(PeakTarget(plan.peak_target_w, plan.peak_wait_s))
    return tuple(
        with_capacity(policy, name, case, settings.capacity, peak)
        for peak in peaks
        for name in names
        for policy in disciplines
    )


def why_no_shaving(case: ReplayCase) -> str:
    """Return why peak shaving cannot be replayed, "" if it can."""
    if case.prices.tariff is None or not case.prices.tariff.demand:
        return "the prices have no demand charge: --tariff FILE.toml with [[demand]]"
    return "it is replayed on equal nodes only, and these differ or are shared" if case.is_mixed else ""


@dataclass(frozen=True)
class Lever:
    """What one policy of a lever would have saved by so many replays, None if not measured: `note` says why not, or
    what was assumed. The replays are of the last `days` of the log, None: of all of it.
    """

    name: str
    saving: CapabilitySaving | None
    note: str = ""
    replays: int = 0
    days: int | None = None


@dataclass(frozen=True)
class Recommendation:
    """The levers that pay together within the bounds of harm, as settings of the agent; `saving` is of them together.

    `queue` is "off" and `capacity` "always-on" if that lever does not pay; `longest_delay` is that of the tiers of jobs
    that pay, such as 6h, "" if none does.
    """

    saving: CapabilitySaving
    queue: str = "off"
    capacity: str = "always-on"
    limit_capacity: bool = False
    longest_delay: str = ""


@dataclass(frozen=True)
class WeeklyBill:
    """What each whole week from `begin_s` on [s of the trace] costs with levers and without, mean of the replays."""

    begin_s: int
    cost: tuple[float, ...]
    without: tuple[float, ...]


@dataclass
class LeverMeasurement:
    """The replays of the levers on the last days of an estimate's log; those that were made are not repeated.

    `policies` are those of the estimate. Raises BadInput if the nodes cannot sleep as configured.
    """

    estimate: SavingsEstimate
    settings: Settings
    policies: Sequence[Policy]
    executor: Executor = THREADS
    _outcomes: dict[str, list[tuple[PolicyOutcome, ...]]] = field(default_factory=dict)
    _replayed: dict[str, tuple[ReplayCase, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prepared, agent = self.estimate.prepared, self.settings.agent
        self.days, self._most = days_of_jobs(prepared.case.jobs.submit_s, MOST_JOBS), MOST_JOBS
        case, _ = take_last_days(prepared.case, self.days)
        requests = len(np.unique(case.jobs.request)) if case.is_mixed else 0  # type: ignore[arg-type]
        self.is_wide, self._rounding = requests > MOST_REQUESTS, ""
        if self.is_wide:
            self.days, self._most = days_of_jobs(prepared.case.jobs.submit_s, MOST_WIDE_JOBS), MOST_WIDE_JOBS
            case, _ = take_last_days(prepared.case, self.days)
            requests = len(np.unique(case.jobs.request))  # type: ignore[arg-type]
        if self.is_wide and case.cluster is not None and len(case.jobs) <= self._most:
            jobs, rounded, classes = round_memory(case.jobs, case.requests, case.cluster)
            case = replace(case, jobs=jobs, requests=rounded, classes=classes)
            self._rounding = f"; memory rounded, so {len(rounded):,} requests differ, not {requests:,}"
        tariff = case.prices.tariff
        self._is_yearly = bool(tariff and any(each.is_yearly for each in tariff.demand))
        self._awake = case
        self._case, self._note = add_sleeping_nodes(case, prepared.units_per_node)
        self._limit_days = min(self.days, LIMIT_DAYS)
        self._limited, _ = take_last_days(self._case, self._limit_days)
        capacity = self.settings.capacity
        self._capacity = replace(capacity, cycles_per_day=capacity.cycles_per_day or agent.cycles_per_day)

    def measure(
        self, replays: int = REPLAYS, progress: Callable[[int], None] = lambda _: None, *, is_quick: bool = False
    ) -> tuple[Lever, ...]:
        """Return each lever's policies as rows by so many replays; `progress` gets the number done.

        `is_quick`: levers with slow replays, caps and peak shaving, are left for later.
        """
        orders = zip(self.estimate.savings, self.estimate.spreads[1:], strict=True)
        rows = [Lever("order", saving, replays=each.replays) for saving, each in orders]
        for number, (name, policy) in enumerate(LEVERS):
            if is_quick and policy in LIMITING:
                rows.append(Lever(name, None, "replayed next, with a what-if each hour"))
            else:
                rows.append(self._capacity_lever(name, policy, replays))
            progress(number + 1)
        rows += [self._peak_lever(replays, is_quick=is_quick), *self._tier_levers(replays)]
        rows += [cap_lever(self.estimate, self.settings), device_lever(self.estimate)]
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
        tiers = [each.saving for each in levers if each.name == "tiers" and each.saving and each.saving.pays]
        delay = max((each.policy.rpartition(" ")[2] for each in tiers), key=parse_duration_s, default="")
        slept = None
        if alone is not None:
            slept = Recommendation(alone, "off", alone.policy, alone.capability == "caps", delay)
        if order is None:
            return slept
        if slept is None:
            return Recommendation(order, order.policy, longest_delay=delay)
        ordering = next(policy for policy in self.policies if policy.name == order.policy)
        together = self._saving("recommended", slept.capacity, replays, ordering)
        if not self.is_harmless(together) or _share(together) < _share(slept.saving):
            return slept
        return replace(slept, saving=together, queue=order.policy)

    def weekly_bill(self, saving: CapabilitySaving) -> WeeklyBill | None:
        """Return the bill by week of the replays of a saving; None if it was not replayed, or has no whole week."""
        case, key = self._replayed.get(saving.policy, (self.estimate.prepared.case, ""))
        replays = self._outcomes.get(key, self.estimate.outcomes)
        weeks = [
            each.weeks for replay in replays for each in replay if each.weeks and each.policy in (key, saving.policy)
        ]
        # Submissions differ by a minute from replay to replay, so some may end before the last week is whole.
        count = min((len(each.cost) for each in weeks), default=0)
        if not count:
            return None
        cost = np.mean([each.cost[:count] for each in weeks], axis=0)
        without = np.mean([each.baseline[:count] for each in weeks], axis=0)
        return WeeklyBill(int(case.jobs.submit_s[0]), tuple(cost.tolist()), tuple(without.tolist()))

    def is_harmless(self, saving: CapabilitySaving) -> bool:
        """Whether jobs wait at most HARDLY_LONGER_S longer, and nodes sleep no more often than the agent lets them."""
        cycles = saving.cycles_per_node_day or 0.0
        waits = saving.wait_is_noise or saving.wait_change_s <= HARDLY_LONGER_S
        return waits and cycles <= self.settings.agent.cycles_per_day

    def _too_wide(self) -> str:
        """Return why the levers of sleep, tiers and caps are not replayed, "" if they are."""
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
        case, days = self._case, self.days
        if policy in LIMITING:
            case, days, replays = self._limited, self._limit_days, min(replays, LIMIT_REPLAYS)
        return Lever(name, saving, f"{self._note}{self._rounding}{self._peak_note(case)}", replays, days)

    def _saving(self, name: str, capacity: str, replays: int, ordering: Policy | None = None) -> CapabilitySaving:
        """Return the saving of a capacity policy, with the order of `ordering` in place of the baseline's."""
        baseline, settings, case = self.policies[0], self._capacity, self._case
        if capacity in LIMITING:
            case, replays = self._limited, min(replays, LIMIT_REPLAYS)

        def policies_at(case: ReplayCase) -> tuple[Policy, ...]:
            return baseline, with_capacity(ordering or baseline, capacity, case, settings)

        spread = self._spreads(case, policies_at, replays)[0]
        text = capacity if ordering is None else spread.policy
        self._replayed[text] = case, policies_at(case)[-1].name
        return replace(self._saving_of(spread, name, case), policy=text)

    def _spreads(self, case: ReplayCase, policies_at: PoliciesAt, replays: int) -> tuple[ReplicationSpread, ...]:
        """Return the spreads of all policies but the baseline."""
        policies = policies_at(case)
        done = self._outcomes.setdefault(policies[-1].name, [])
        power, first = self.estimate.prepared.power, self._jobs_before(case)
        done += replay_each(
            case,
            policies,
            range(len(done), replays),
            seed=self.settings.power.seed,
            draw_power=(lambda rng: power.draw_w(rng)[first:]) if power.is_drawn else None,
            policies_at=policies_at,
            executor=self.executor,
        )
        outcomes = without_demand(done) if first and self._is_yearly else done
        return spreads_of(outcomes, case.prices.aligned.weeks)[1:]

    def _jobs_before(self, case: ReplayCase) -> int:
        return len(self.estimate.prepared.case.jobs) - len(case.jobs)

    def _peak_note(self, case: ReplayCase) -> str:
        """Return that the peak of a year is not known, "" if it is or does not matter."""
        if not (self._jobs_before(case) and self._is_yearly):
            return ""
        return "; these days do not have the highest quarter-hour of a year: no saving of its charge"

    def _saving_of(self, spread: ReplicationSpread, lever: str, case: ReplayCase) -> CapabilitySaving:
        submit_s, used = case.jobs.submit_s, self.estimate.used
        period_s = min(max(int(submit_s[-1] - submit_s[0]), DAY_S), used.until_s - used.begin_s)
        return saving_of(spread, used, lever, period_s=period_s)

    def _peak_lever(self, replays: int, *, is_quick: bool) -> Lever:
        """Return peak shaving on the whole log: a month says little about the highest quarter-hour."""
        name, prepared, plan = PEAK_SHAVING, self.estimate.prepared, self.settings.plan
        highest = self.estimate.spreads[0].figures.get("peak_kw")
        if why := why_no_shaving(prepared.case):
            return Lever(name, None, why)
        if highest is None:
            return Lever(name, None, "not in every replay does a quarter-hour count for a demand charge")
        if is_quick:
            return Lever(name, None, "replayed next, on the whole log")
        target_w = plan.peak_target_w or float(f"{1000 * PEAK_TARGET * highest.middle:.3g}")
        peak = PeakTarget(target_w, plan.peak_wait_s)
        case = add_sleeping_nodes(prepared.case, prepared.units_per_node)[0]
        baseline, settings = self.policies[0], self._capacity

        def policies_at(at: ReplayCase) -> tuple[Policy, ...]:
            return baseline, with_capacity(baseline, "always-on", at, settings, peak)

        try:
            spread = self._spreads(case, policies_at, replays)[0]
        except BadInput as problem:
            return Lever(name, None, f"{problem}; {problem.hint}")
        saving = replace(saving_of(spread, self.estimate.used, name), policy=f"peak_target {target_w / 1000:g}kW")
        note = f"a job waits for it up to {duration_text(plan.peak_wait_s)} (peak_wait); of the whole log, all nodes on"
        note += "; its range does not hold other peaks than those of the log"
        return Lever(name, saving, note, replays)

    def _tier_levers(self, replays: int) -> list[Lever]:
        """Return a row for each tier of jobs that may wait: as the site declares them, else drawn in each replay."""
        if why := self._too_wide():
            return [Lever("tiers", None, why)]
        case, declared = replace(self._awake, nodes=None), bool(self.settings.flexibility.declarations)
        holds = {tier: hold_of_tier(case, self.settings, tier) for tier in TIERS}
        policies = [self.policies[0]]
        for tier, hold in holds.items():
            share, longest_s = TIERS[tier]
            if declared:
                delays_s = hold(case.jobs)
                share, longest_s = float((delays_s > 0).mean()), int(delays_s.max())
            if longest_s:
                name = f"{tier.name}, {share:.0%} of jobs up to {longest_s // HOUR_S}h"
                policies.append(replace(self.policies[0], name=name, hold=hold))
        if len(policies) == 1:
            return [Lever("tiers", None, "no job of the log has a QOS or partition that [flexibility] lets wait")]
        origin = "by QOS and partition as [flexibility] says" if declared else "drawn anew in each replay"
        note = f"jobs that wait for cheaper hours, {origin}; the wait is theirs{self._rounding}{self._peak_note(case)}"
        spreads = self._spreads(case, lambda _: tuple(policies), replays)
        return [Lever("tiers", self._saving_of(spread, "tiers", case), note, replays, self.days) for spread in spreads]


def device_lever(estimate: SavingsEstimate) -> Lever:
    """Return what PV and battery would bring beside the replay of today's order."""
    bill = next(iter(estimate.comparison.device_bills), None)
    if bill is None:
        return Lever("devices", None, "no PV plant or battery is described: --devices FILE")
    pv, saved, most = (bill.a_year(cost) for cost in (bill.pv_alone, bill.planned, bill.bound))
    saving = CapabilitySaving(
        capability="devices",
        policy="PV and battery" if bill.pv_kwh else "battery",
        share_pct=Bounds(*[saving_pct(bill.planned, bill.without)] * 3),
        a_year=Bounds(saved, saved, saved),
        energy_kwh=bill.saved_kwh * YEAR_S / (HOUR_S * bill.hours),
        peak_kw=bill.saved_kw,
    )
    alone = f"PV alone saves {pv:,.2f} {bill.currency} a year; " if bill.pv_kwh else ""
    return Lever("devices", saving, f"{alone}perfect knowledge would save {most:,.2f} at most; no cost of the devices")


def cap_lever(estimate: SavingsEstimate, settings: Settings) -> Lever:
    """Return what caps on the power of busy nodes would bring in expensive hours, by the curve of the inventory."""
    name, prepared, comparison = "node caps", estimate.prepared, estimate.comparison
    try:
        machines = read_inventory(settings.hardware.inventory).machines
    except BadInventory as problem:
        return Lever(name, None, f"no cap curve of these nodes is known ({problem})")
    curves = Counter(each.hardware.cap_curve for each in machines if each.hardware.cap_by and each.hardware.cap_curve)
    if not curves:
        return Lever(name, None, "no cap curve of these nodes is known: cap_by and cap_curve in the inventory")
    if prepared.power.assumed:
        return Lever(name, None, "the power of busy nodes is not known: --power and --idle-power")
    (curve, count), case, units = curves.most_common(1)[0], comparison.case, prepared.units_per_node
    usage = comparison.runs[0].usage
    above_idle = power_curve(replace(usage, node_power_w=usage.node_power_w - usage.idle_w, idle_w=0.0))
    series, offset_s = case.prices.aligned.series, case.prices.aligned.offset_s
    edges_s = np.clip(np.append(series.start_s, series.end_s) - offset_s, usage.begin_s, usage.until_s)
    device_kwh = integral_between(above_idle.edges_s, above_idle.total_w, edges_s) / J_PER_KWH
    known = series.known & (device_kwh > 0)
    unit_s = float((usage.size * (usage.end_s - usage.start_s)).sum())
    idle_w, dynamic_w = usage.idle_w * units, float(device_kwh.sum()) * J_PER_KWH / max(unit_s, 1.0) * units
    node = CappableNode("", idle_w + dynamic_w, dynamic_w, cap_curve_named(curve), offset_w=idle_w)
    cap = best_priced_cap(node, series.value[known], device_kwh[known], rest_w=idle_w)
    if cap is None:
        return Lever(name, None, "busy nodes draw no more than idle ones, or no price is known")
    price, slows = f"{cap.above:,.2f} {series.currency}/MWh", "{:.0%} to {:.0%}".format(*cap.slowdown)
    about = f"at {cap.share:.0%} of what a busy node draws above idle, jobs slow down by {slows} (curve {curve})"
    if cap.money[0] <= 0:
        return Lever(name, None, f"not worth it below {price}, and electricity costs more in no hour: {about}")
    years = (usage.until_s - usage.begin_s) / YEAR_S * len(machines) / count
    low, high = (each / years for each in cap.money)
    bill = abs(estimate.used.cost.middle) / ((estimate.used.until_s - estimate.used.begin_s) / YEAR_S)
    saving = CapabilitySaving(
        capability=name,
        policy=f"{curve} at {cap.share:.0%} above {price}",
        share_pct=Bounds(*(100 * each / bill if bill else 0.0 for each in (low, (low + high) / 2, high))),
        a_year=Bounds(low, (low + high) / 2, high),
        energy_kwh=sum(cap.saved_kwh) / 2 / years,
        longer_run=cap.longer * count / len(machines),
    )
    nodes = f"on {count} of {len(machines)} nodes of the inventory, all nodes on, waits that become longer not counted"
    orders = "an admin orders caps (`offpeak cap`), the agent itself only in grid events"
    return Lever(name, saving, f"not worth it below {price}; {about}; {nodes}; {orders}")


class JobKind(NamedTuple):
    """The parts of a logged job by which a site declares its flexibility."""

    qos: str
    partitions: tuple[str, ...]
    comment: str = ""


def hold_of_tier(case: ReplayCase, settings: Settings, tier: Tier) -> Callable[[Jobs], Int64]:
    """Return how long each job of the tier may be kept back, 0 for others: by its QOS and partition as the site
    declares, else as TIERS says.
    """
    share, longest_s = TIERS[tier]

    def drawn_s(jobs: Jobs) -> Int64:
        # Submissions differ from replay to replay, and with them the jobs that may wait.
        rng = np.random.default_rng(abs(int(jobs.submit_s.sum())))
        return np.where(rng.random(len(jobs)) < share, longest_s, 0)

    if not settings.flexibility.declarations:
        return drawn_s
    requests, names, most_s = case.requests, case.names, settings.agent.longest_delay_s
    kinds = [JobKind(each.qos, each.partitions) for each in requests]
    kinds = kinds or [JobKind("", (name,)) for name in names.partitions(case.jobs)[1]]
    found = [settings.flexibility.rules(case.prices.aligned.zone).of(kind) for kind in kinds]
    delays_s = [min(each.delay_s or 0, most_s) if each.allows_delay else 0 for each in found]
    of_kind_s = np.array([*(each if (each >= DAY_S) == (tier is Tier.T2) else 0 for each in delays_s), 0])

    def declared_s(jobs: Jobs) -> Int64:
        number = jobs.request if requests else names.partitions(jobs)[0]
        return np.zeros(len(jobs), np.int64) if number is None else of_kind_s[number]

    return declared_s


def _share(saving: CapabilitySaving) -> float:
    return saving.share_pct.middle

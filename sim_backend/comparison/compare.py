"""Replays one log under several policies and charges each for its electricity: the main job of `offpeak simulate`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cache, partial

import numpy as np

from offpeak.errors import BadInput
from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import HOUR_S, QUARTER_S, WEEK_S
from offpeak.model.facility import cooling_w
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.model.step_integrals import Usage, integrate_constant, integrate_series
from offpeak.model.step_series import integral_between
from offpeak.model.time_range import TimeRange
from offpeak.plugin.capacity.peak_shaving import NO_SHAVING, PeakRules
from offpeak.plugin.priority_bands import band_widths
from offpeak.plugin.queue_hook.facts import PriceIntegral
from offpeak.plugin.queue_hook.start_times import LEAST_SAVING
from offpeak.prices.alignment import REPEATED_WEEKS
from offpeak.prices.bill import demand_peaks
from offpeak.sim_backend.case.electricity import cooling_of, decision_series, peak_times
from offpeak.sim_backend.case.machine_size import backlog_s
from offpeak.sim_backend.case.replay_case import ReplayCase, guessed_end_s
from offpeak.sim_backend.case.site_jobs import engine_case_of
from offpeak.sim_backend.comparison.outcome import (
    Charges,
    Demand,
    DeviceBill,
    Meters,
    PolicyOutcome,
    PolicyRun,
    SleepOutcome,
    charges_of,
    outcome_of,
    powered_charges_of,
    price_meters,
    sum_of_charges,
)
from offpeak.sim_backend.comparison.pools import lowest_of_pool, pool_usages
from offpeak.sim_backend.engine.rules import NOT_YET, PeakTimes
from offpeak.sim_backend.nodes.node_log import PoweredUsage, join_node_logs, sleep_figures, state_times
from offpeak.sim_backend.nodes.power_curve import (
    PowerCurve,
    StandingDraw,
    power_curve,
    powered_curve,
    standing_draw,
    sum_of_curves,
)
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, unit_replay
from offpeak.sim_backend.replay.policy import Policy
from offpeak.sim_backend.replay.replay import Replay, SleepingNodes, rules_of
from offpeak.sim_backend.replay.schedule import JobRuns, Schedule
from offpeak.text import counted

Replayed = Schedule | Replay
"""A replay up to its last job's end. Nodes that can sleep may go on from there."""


@dataclass(frozen=True)
class Comparison:
    """The run of each policy, compared with that of the first, the baseline.

    Each pair has a period of its own, from the first submission to the later end of the two: no row depends on the
    others. `runs` and `outcomes` are of these periods, and so are the baseline's runs in `baselines`. `case` is the one
    given, its prices continued as far as they were needed. `device_bills` are those of the runs beside a PV plant and a
    battery, none without these.
    """

    case: ReplayCase
    runs: tuple[PolicyRun, ...]
    baselines: tuple[PolicyRun, ...]
    outcomes: tuple[PolicyOutcome, ...]
    device_bills: tuple[DeviceBill, ...] = ()

    @property
    def begin_s(self) -> int:
        """The first submission [trace seconds]."""
        return self.runs[0].usage.begin_s

    @property
    def until_s(self) -> int:
        """The last end under any policy [trace seconds]."""
        return max(run.usage.until_s for run in self.runs)

    def mean_waits_s(self) -> tuple[float, float] | None:
        """Return how long jobs waited on average in the log and in the baseline's replay; None without a logged start.

        Both are of the jobs that started in the log and in the replay.
        """
        jobs, start_s = self.case.jobs, self.runs[0].schedule.start_s
        both = (jobs.logged_start_s >= 0) & (start_s != NOT_YET)
        if not both.any():
            return None
        logged_s, replayed_s = ((each - jobs.submit_s)[both] for each in (jobs.logged_start_s, start_s))
        return float(logged_s.mean()), float(replayed_s.mean())


def compare(
    case: ReplayCase, policies: tuple[Policy, ...], progress: Callable[[str, int], None] | None = None
) -> Comparison:
    """Replay `case` under each policy. `progress` gets the policy and the number of jobs submitted so far.

    Raises BadInput if jobs never start under a policy: one may start none on-peak, and prices be so always.
    """
    begin_s = int(case.jobs.submit_s[0])
    replays = [_replay_to_its_end(case, policy, progress) for policy in policies]
    until_s = max(int(played.end_s.max()) for played, _ in replays)
    aligned = case.prices.aligned.until(max(needed_s for _, needed_s in replays))
    case = replace(case, prices=replace(case.prices, aligned=aligned))
    schedules = [_rested(played, until_s) for played, _ in replays]
    ends_s = [int(schedule.end_s.max()) for schedule in schedules]

    @cache
    def run_until(number: int, until_s: int) -> PolicyRun:
        usage = usage_of(case, schedules[number], begin_s, until_s)
        return _run(case, policies[number], schedules[number], usage, meters_of(case, until_s))

    @cache
    def outcome_until(number: int, until_s: int) -> PolicyOutcome:
        run, baseline = run_until(number, until_s), run_until(0, until_s)
        return outcome_of(run, baseline, case.jobs, case.machine, aligned.series.currency, names=case.names)

    def held_wait_s(policy: Policy, run: PolicyRun, baseline: PolicyRun) -> float | None:
        """Return how much longer those jobs wait that the policy may keep back, None if it may keep back none."""
        may_wait = policy.hold(case.jobs) > 0 if policy.hold else np.zeros(len(case.jobs), np.bool_)
        longer_s = (run.schedule.start_s - baseline.schedule.start_s)[may_wait]
        return float(longer_s.mean()) if len(longer_s) else None

    pair_ends_s = [max(end_s, ends_s[0]) for end_s in ends_s]
    runs = tuple(run_until(number, until_s) for number, until_s in enumerate(pair_ends_s))
    baselines = tuple(run_until(0, until_s) for until_s in pair_ends_s)
    outcomes = tuple(
        replace(
            outcome_until(number, until_s),
            held_wait_s=held_wait_s(policies[number], runs[number], baselines[number]),
            baseline=outcome_until(0, until_s),
        )
        for number, until_s in enumerate(pair_ends_s)
    )
    return Comparison(case, runs, baselines, outcomes)


def _run(case: ReplayCase, policy: Policy, schedule: Schedule, usage: Usage, meters: Meters) -> PolicyRun:
    pools, sleep = pool_usages(case, schedule, usage), None
    if not pools:
        charges = charges_of(usage, meters)
    else:
        last_runs = replace(usage, start_s=schedule.start_s, end_s=schedule.end_s)
        figures = sleep_figures(pools, last_runs, case.jobs.submit_s, schedule.sleep_delay_s, slowdown_bound=case.sla)
        log = join_node_logs([pool.node_log for pool in pools])
        sleep = SleepOutcome(log, figures, sum(map(lowest_of_pool, pools)), pools)
        charges = sum_of_charges([powered_charges_of(pool, meters) for pool in pools])
    cooling = None
    if case.room is not None:
        cooling = cooling_of(case.room, curve_of_run(usage, sleep), meters.price, meters.carbon)
    return PolicyRun(policy.name, schedule, usage, charges, sleep, cooling, demand_of(case, usage, sleep))


@dataclass(frozen=True, eq=False)
class SiteLoad:
    """The mean load between edges [Unix s], on the clock of `zone`."""

    edges_s: Int64
    load_kw: Float64
    zone: tzinfo


def site_load(case: ReplayCase, usage: Usage, sleep: SleepOutcome | None) -> SiteLoad:
    """Return the power of machine and cooling over the period of a run's usage, on the dates of the prices."""
    curve, aligned = curve_of_run(usage, sleep), case.prices.aligned
    watts = curve.total_w
    if case.room is not None:
        watts = watts + cooling_w(case.room.facility, watts, np.full(len(watts), case.room.outside_c))
    return SiteLoad(curve.edges_s + aligned.offset_s, watts / 1000, aligned.zone)


def demand_of(case: ReplayCase, usage: Usage, sleep: SleepOutcome | None) -> Demand | None:
    """Return what the demand charges of the tariff cost by the whole quarter-hours of a run; None without charges.

    They are of the power of the nodes, as the energy of the bill is: cooling has figures of its own.
    """
    tariff = case.prices.tariff
    if tariff is None or not tariff.demand:
        return None
    curve = curve_of_run(usage, sleep)
    at_s = curve.edges_s + case.prices.aligned.offset_s
    first_s, last_s = int(at_s[0]), int(at_s[-1])
    edges_s = np.arange(-(-first_s // QUARTER_S) * QUARTER_S, last_s + 1, QUARTER_S)
    power_w = integral_between(at_s, curve.total_w, edges_s) / QUARTER_S
    peaks = demand_peaks(tariff, edges_s[:-1], power_w, span=TimeRange(first_s, last_s))
    return Demand(max((each.power_kw for each in peaks), default=None), sum(each.cost_with_tax for each in peaks))


def curve_of_run(usage: Usage, sleep: SleepOutcome | None) -> PowerCurve:
    """Return the machine's power over the period of a run's usage, with the sleep of its nodes if they can sleep."""
    if sleep is None:
        return curve_of(usage, None)
    return sum_of_curves([curve_of(pool.usage, draw_of_pool(pool)) for pool in sleep.pools])


def draw_of_pool(pool: PoweredUsage) -> StandingDraw:
    """Return the power of the pool's nodes without jobs."""
    counts = pool.node_log.counts(pool.usage.begin_s)
    return standing_draw(counts, pool.node_class, units_per_node=pool.node_log.units_per_node)


def curve_of(usage: Usage, draw: StandingDraw | None) -> PowerCurve:
    """Return the machine's power over the period of `usage`, jobs that never start left out."""
    ran = usage.start_s != NOT_YET
    columns = ("size", "node_power_w", "start_s", "end_s")
    some = usage if ran.all() else replace(usage, **{name: getattr(usage, name)[ran] for name in columns})
    return power_curve(some) if draw is None else powered_curve(some, draw)


def _replay_to_its_end(
    case: ReplayCase, policy: Policy, progress: Callable[[str, int], None] | None
) -> tuple[Replayed, int]:
    """Replay under a policy, again with prices that reach further where it goes beyond their end; return how far."""
    begin_s = int(case.jobs.submit_s[0])
    needed_s = guessed_end_s(case) + backlog_s(case.jobs, case.machine.size)
    left_before = None
    while True:
        # Always start from the given prices: extended prices must not be extended again.
        prices = replace(case.prices, aligned=case.prices.aligned.until(needed_s))
        played = _replay(case, policy, peak_times(prices, case.carbon), progress)
        left = np.flatnonzero(played.start_s == NOT_YET)
        if isinstance(played, Replay) and played.failed_nodes:
            left = left[:0]
        if not len(left) and int(played.end_s.max()) <= needed_s:
            return played, needed_s
        if left_before == len(left) > 0:
            raise BadInput(
                f"policy {policy.name!r} never starts {counted(len(left), 'job')}, the first is job"
                f" {case.jobs.job_id[left[0]]}",
                hint="it waits for off-peak hours: choose a tariff or --peak-rule that has some, or another policy",
            )
        # Prices repeat within a year: what a year and more of them does not start never starts.
        left_before, until_s = len(left), max(int(played.end_s.max()), needed_s)
        needed_s = until_s + max(until_s - begin_s, (REPEATED_WEEKS + 1) * WEEK_S)


def replay_policy(case: ReplayCase, policy: Policy, peaks: PeakTimes, *, rest_until_s: int = 0) -> Schedule:
    """Replay under a policy. Nodes that can sleep go on until its last job has ended, and up to that second."""
    played = _replay(case, policy, peaks)
    return _rested(played, max(rest_until_s, int(played.end_s.max())))


def _rested(played: Replayed, until_s: int) -> Schedule:
    """Return the schedule; nodes that can sleep have gone on until that second."""
    if isinstance(played, Schedule):
        return played
    played.rest(until_s)
    return played.schedule()


def _replay(
    case: ReplayCase, policy: Policy, peaks: PeakTimes, progress: Callable[[str, int], None] | None = None
) -> Replayed:
    """Replay up to the last job's end. Raises BadInput for a policy that does not know the nodes of the case."""
    if policy.hold is None:
        if case.is_mixed:
            played = _cluster_replay(case, policy, peaks)
        else:
            machine: PoweredMachine | int = case.machine.size
            if policy.capacity:
                assert isinstance(case.nodes, PoweredMachine)
                machine = case.nodes
            played = unit_replay(
                case.jobs,
                case.node_power_w,
                machine,
                policy,
                peaks=peaks,
                without_limit=case.without_limit,
                shaving=_peak_rules(case, policy),
            )
        played.run(partial(progress, policy.name) if progress else None)
        return played
    # Each job that is kept back is submitted when it may start.
    release_s = release_times_s(case, policy.hold(case.jobs))
    order = np.argsort(release_s, kind="stable")
    jobs = replace(case.jobs, submit_s=release_s).take(order)
    moved = replace(case, jobs=jobs, node_power_w=case.node_power_w[order])
    released = _replay(moved, replace(policy, hold=None), peaks, progress)
    made = _rested(released, int(released.end_s.max()))
    back = np.argsort(order)
    lost = made.lost._replace(job=order[made.lost.job])
    return Schedule(made.start_s[back], made.end_s[back], made.simulate_s, lost=lost)


def release_times_s(case: ReplayCase, longest_s: Int64) -> Int64:
    """Return when each job may start [trace s]: at its submission, or at the cheapest of the hours that begin within
    its longest delay, by its estimate, if that saves as much as the agent demands of a delay.
    """
    submit_s, run_s, most_s = case.jobs.submit_s, case.jobs.estimate_s, int(longest_s.max(initial=0))
    until_s = int((submit_s + run_s).max()) + most_s + HOUR_S
    prices = replace(case.prices, aligned=case.prices.aligned.until(until_s))
    integral, offset_s = PriceIntegral(decision_series(prices, case.carbon)), prices.aligned.offset_s
    hour_s = (submit_s + offset_s) // HOUR_S * HOUR_S - offset_s
    now = integral.per_watt(submit_s + offset_s, run_s)
    best_s, least = submit_s.copy(), now - LEAST_SAVING * np.abs(now)
    for hour in range(1, most_s // HOUR_S + 1):
        at_s = hour_s + hour * HOUR_S
        cost = integral.per_watt(at_s + offset_s, run_s)
        better = (cost < least) & (at_s - submit_s <= longest_s)
        best_s, least = np.where(better, at_s, best_s), np.where(better, cost, least)
    return best_s


def _cluster_replay(case: ReplayCase, policy: Policy, peaks: PeakTimes) -> Replay:
    """Return the replay on the pools of the case's cluster; BadInput for a policy that does not know pools of nodes."""
    assert case.cluster is not None
    made = engine_case_of(
        case.jobs, case.node_power_w, case.cluster, case.requests, case.classes, without_limit=case.without_limit
    )
    widths = band_widths(policy.priority_band_percent, case.cluster, made.workload.priority)
    rules = rules_of(policy, case.cluster.timing)._replace(widths=widths)
    site = case.priorities
    priorities = None if site is None else site.for_jobs(case.jobs, case.requests, case.cluster)
    nodes = SleepingNodes(case.nodes.classes) if case.nodes and policy.capacity else None
    return Replay(made, policy, rules, nodes, peaks=peaks, priorities=priorities, jobs=case.jobs)


def _peak_rules(case: ReplayCase, policy: Policy) -> PeakRules:
    """Return the rules of the policy's peak shaving on the clock of the log."""
    tariff, offset_s = case.prices.tariff, case.prices.aligned.offset_s
    if policy.peak is None or tariff is None or not tariff.demand or not isinstance(case.nodes, PoweredMachine):
        return NO_SHAVING
    begin_s = (int(case.jobs.submit_s[0]) + offset_s) // QUARTER_S * QUARTER_S
    until_s = guessed_end_s(case) + backlog_s(case.jobs, case.machine.size) + offset_s
    start_s = np.arange(begin_s, until_s, QUARTER_S, dtype=np.int64)
    rules = policy.peak.rules(tariff, start_s, case.nodes.node_class, case.nodes.units_per_node)
    return rules._replace(at_s=rules.at_s - offset_s)


def usage_of(case: ReplayCase, schedule: Schedule, begin_s: int, until_s: int) -> Usage:
    """Return the usage of the machine over the period [begin_s, until_s), with the lost runs behind those of jobs."""
    _, start_s, end_s = schedule.runs
    return Usage(
        size=schedule.by_run(case.jobs.size),
        node_power_w=schedule.by_run(case.node_power_w),
        start_s=start_s,
        end_s=end_s,
        machine_size=case.machine.size,
        idle_w=case.machine.idle_w,
        begin_s=begin_s,
        until_s=until_s,
    )


def charge_period(
    case: ReplayCase, schedule: Schedule, meters: Meters, begin_s: int, until_s: int
) -> tuple[Charges, int]:
    """Return what a schedule used in [begin_s, until_s), and for how many node-seconds nodes were not on then."""
    # A run outside the period takes no time.
    edges, lost = (begin_s, until_s), schedule.lost
    within = replace(
        schedule,
        start_s=np.clip(schedule.start_s, *edges),
        end_s=np.clip(schedule.end_s, *edges),
        lost=JobRuns(lost.job, np.clip(lost.start_s, *edges), np.clip(lost.end_s, *edges)),
    )
    usage = usage_of(case, within, begin_s, until_s)
    powered = pool_usages(case, within, usage)
    if not powered:
        return charges_of(usage, meters), 0
    times = [state_times(meters.price, each.node_log, begin_s, until_s).seconds for each in powered]
    away_s = sum(int(seconds.sum() - seconds[[ACTIVE, FAILED]].sum()) for seconds in times)
    return sum_of_charges([powered_charges_of(each, meters) for each in powered]), away_s


def meters_of(case: ReplayCase, until_s: int) -> Meters:
    """Return what schedules that end by `until_s` are charged by; the prices reach that far."""
    aligned = case.prices.aligned
    begin_s = int(case.jobs.submit_s[0])
    price, known = price_meters(aligned.series, aligned.offset_s, begin_s, until_s)
    carbon = None
    if isinstance(case.carbon, float):
        carbon = integrate_constant(case.carbon)
    elif case.carbon is not None:
        continued = case.carbon.until(until_s)
        carbon = integrate_series(continued.series, continued.offset_s)
    return Meters(price, known, carbon, aligned.series.currency)

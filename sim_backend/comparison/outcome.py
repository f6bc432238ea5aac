"""The outcome of one policy on a log: figures of its schedule and of the baseline's, with and without sleeping nodes.

A schedule on sleeping nodes is charged by its jobs and its node log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.constants import HOUR_S, J_PER_KWH, J_PER_MWH, YEAR_S
from offpeak.model.jobs import NUMBERS_ONLY, Jobs, LogNames
from offpeak.model.schedule_metrics import (
    bounded_slowdown,
    bounded_slowdown_by_delay,
    makespan_s,
    postponement_s,
    response_ratio,
    utilization,
)
from offpeak.model.step_integrals import (
    Charge,
    StepIntegral,
    Usage,
    charge,
    energy_and_charge,
    integrate_known_time,
    integrate_series,
)
from offpeak.model.step_series import Series
from offpeak.sim_backend.case.electricity import Cooling
from offpeak.sim_backend.case.replay_case import ReplayMachine
from offpeak.sim_backend.comparison.pools import stopped_runs
from offpeak.sim_backend.comparison.weeks import ReplayedWeeks
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.nodes.bounds import captured_share
from offpeak.sim_backend.nodes.node_log import NodeLog, PoweredUsage, SleepFigures, node_energy_and_charge
from offpeak.sim_backend.replay.schedule import Schedule


@dataclass(frozen=True)
class Meters:
    """What a schedule is charged by, on the log's clock. `known` is None if the prices have no gaps."""

    price: StepIntegral
    known: StepIntegral | None
    carbon: StepIntegral | None
    currency: str


@dataclass(frozen=True)
class PolicyOutcome:
    """The figures of one policy, units in the names; `saving_pct` and what follows are against the first policy.

    They are of the period from the first submission to `until_s`, the later end of the two [trace seconds]; `baseline`
    has the figures of the first policy in the same period, None in these figures themselves.

    `mean_bounded_slowdown` is max((wait + run) / max(run, 10 s), 1), `mean_bounded_slowdown_by_delay` is
    1 + wait / max(10 s, run). `cost` leaves out `unpriced_kwh`, used while no price was known. `co2_kg` is None without
    a carbon intensity. `worst_postponement_s` is the latest that a job starts after its start under the first policy,
    `worst_postponement_job_id` that job. `response_ratio` is the geometric mean of response under the first policy over
    response under this one.

    `never_started` jobs needed more nodes than had not failed; the times are those of the others. `stopped_runs` were
    stopped for other jobs, after they had used `stopped_node_h` node-hours; the times of a job that started anew are
    those of its last run. What follows is None
    where nodes cannot sleep. `idle_saved_pct` is what sleeping saves of the energy of idle nodes, `captured_pct` the
    share of what it could save with these starts, were the future known. `asleep_share` is that of node time in which
    nodes are not active, `utilization_of_active` the jobs' share of the rest. The sleep delay of a job is how long
    nothing but sleeping nodes keeps it from running; `delayed_share` that of the jobs that have one. `above_sla_share`
    is that of the jobs whose slowdown is above the SLA.

    Cooling comes on top of energy, cost and CO2, None if no machine room is known; `pue` is the energy of both over
    that of the computers, `cooled_saving_pct` what is saved of the cost of both.

    `partition_wait_s` is the mean wait of the jobs of each partition, by name, if the log has several. `weeks` has the
    costs by week of a replay that is one of many, else None.

    Where the tariff has demand charges, `peak_kw` is the highest quarter-hour that counts, machine and cooling, None if
    none counts; `bill` is the cost with these charges, and `bill_saving_pct` is saved of it. `held_wait_s` is how much
    longer those jobs waited that may be kept back for cheaper hours, None if no job may.
    """

    policy: str
    jobs: int
    mean_wait_s: float
    mean_response_s: float
    mean_bounded_slowdown: float
    mean_bounded_slowdown_by_delay: float
    utilization: float
    makespan_s: int
    energy_kwh: float
    idle_energy_kwh: float
    unpriced_kwh: float
    cost: float
    currency: str
    co2_kg: float | None
    saving_pct: float
    worst_postponement_s: int
    worst_postponement_job_id: int
    response_ratio: float
    simulate_s: float = field(compare=False)
    never_started: int = 0
    stopped_runs: int = 0
    stopped_node_h: float = 0.0
    idle_saved_pct: float | None = None
    captured_pct: float | None = None
    asleep_share: float | None = None
    utilization_of_active: float | None = None
    cycles_per_node_day: float | None = None
    most_cycles_of_a_node: int | None = None
    mean_sleep_delay_s: float | None = None
    delayed_share: float | None = None
    worst_sleep_delay_s: int | None = None
    above_sla_share: float | None = None
    cooling_kwh: float | None = None
    cooling_cost: float | None = None
    cooling_co2_kg: float | None = None
    pue: float | None = None
    cooled_saving_pct: float | None = None
    peak_kw: float | None = None
    bill: float | None = None
    bill_saving_pct: float | None = None
    held_wait_s: float | None = None
    partition_wait_s: Mapping[str, float] = field(default_factory=dict)
    until_s: int = 0
    baseline: "PolicyOutcome | None" = None
    weeks: ReplayedWeeks | None = field(default=None, compare=False)

    @property
    def saved(self) -> float:
        """How much less the policy costs than the first one in the same period."""
        return self.baseline.cost - self.cost if self.baseline else 0.0


@dataclass(frozen=True)
class DeviceBill:
    """The bills of a load over `hours`, in `currency`: without devices, with PV alone, with PV and battery.

    `planned` is the bill of the battery's day-ahead plans as they turn out, `bound` the one that no operation can
    undercut. `cycles` is how often the battery discharges its capacity. In `unpriced_h` no price is known: the battery
    holds, and energy has no cost. `saved_kwh` and `saved_kw` are what PV and battery take off the import and off its
    highest quarter-hour, None if none counts.
    """

    hours: float
    currency: str
    without: float
    pv_alone: float
    planned: float
    bound: float
    pv_kwh: float
    exported_kwh: float
    curtailed_kwh: float
    cycles: float
    unpriced_h: float
    saved_kwh: float = 0.0
    saved_kw: float | None = None

    def a_year(self, bill: float) -> float:
        """Return how much less than without devices this bill is, over a year like the period."""
        return (self.without - bill) * YEAR_S / (HOUR_S * self.hours)


@dataclass(frozen=True)
class Charges:
    """What a schedule used: energy [J], and money and CO2 in watts times their unit times seconds."""

    energy: Charge
    cost: Charge
    unpriced_j: float
    carbon: Charge | None

    @property
    def co2_kg(self) -> float | None:
        """The emissions, None without a carbon intensity."""
        return None if self.carbon is None else self.carbon.total / J_PER_KWH / 1000


@dataclass(frozen=True)
class Demand:
    """The highest quarter-hour that counts for a demand charge, None if none does, and what the charges cost."""

    peak_kw: float | None
    cost: float


@dataclass(frozen=True)
class PolicyRun:
    """One policy's schedule, and what it used in the period of `usage`; `demand` is None without demand charges."""

    policy: str
    schedule: Schedule
    usage: Usage
    charges: Charges
    sleep: "SleepOutcome | None" = None
    cooling: Cooling | None = None
    demand: Demand | None = None


@dataclass(frozen=True)
class SleepOutcome:
    """What nodes that can sleep did in a run, and the least that its starts would have needed, were the future known.

    `lowest_idle_j` is energy besides that of the jobs. `pools` has the usage of each pool of nodes; equal nodes
    are one.
    """

    node_log: NodeLog
    figures: SleepFigures
    lowest_idle_j: float
    pools: tuple[PoweredUsage, ...]


def charges_of(usage: Usage, meters: Meters) -> Charges:
    """Return what the machine used over the period of `usage`."""
    energy, cost = energy_and_charge(meters.price, usage)
    known_j = charge(meters.known, usage).total if meters.known else energy.total
    carbon = charge(meters.carbon, usage) if meters.carbon else None
    return Charges(energy, cost, energy.total - known_j, carbon)


def powered_charges_of(powered: PoweredUsage, meters: Meters) -> Charges:
    """Return what the machine used over the period; all but the jobs counts as idle."""

    def charges(meter: StepIntegral) -> list[Charge]:
        return [Charge(part.jobs, part.besides_jobs) for part in node_energy_and_charge(meter, powered)]

    energy, cost = charges(meters.price)
    known_j = charges(meters.known)[1].total if meters.known else energy.total
    carbon = charges(meters.carbon)[1] if meters.carbon else None
    return Charges(energy, cost, energy.total - known_j, carbon)


def sum_of_charges(charges: Sequence[Charges]) -> Charges:
    """Return what several parts of a machine used together."""

    def total(parts: Sequence[Charge]) -> Charge:
        return Charge(sum(part.jobs for part in parts), sum(part.idle for part in parts))

    carbon = [charge.carbon for charge in charges if charge.carbon is not None]
    return Charges(
        energy=total([charge.energy for charge in charges]),
        cost=total([charge.cost for charge in charges]),
        unpriced_j=sum(charge.unpriced_j for charge in charges),
        carbon=total(carbon) if carbon else None,
    )


def price_meters(series: Series, offset_s: int, begin_s: int, until_s: int) -> tuple[StepIntegral, StepIntegral | None]:
    """Return the meter of the prices, and that of the time in which they are known unless they always are.

    "Always" is from `begin_s` to `until_s` on the clock that is `offset_s` behind the series'.
    """
    first, last = np.searchsorted(series.start_s, [begin_s + offset_s, until_s + offset_s], side="right") - 1
    is_known = series.known[max(first, 0) : last + 1].all()
    return integrate_series(series, offset_s), None if is_known else integrate_known_time(series, offset_s)


def outcome_of(
    run: PolicyRun,
    baseline: PolicyRun,
    jobs: Jobs,
    machine: ReplayMachine,
    currency: str,
    *,
    names: LogNames = NUMBERS_ONLY,
) -> PolicyOutcome:
    """Return the figures of a run, against those of the first policy's run.

    Times are those of the jobs that started under both, of which there is one at least.
    """
    used = run.charges
    ran = (run.schedule.start_s != NOT_YET) & (baseline.schedule.start_s != NOT_YET)
    never_started = int(np.count_nonzero(run.schedule.start_s == NOT_YET))
    schedule, first = run.schedule, baseline.schedule
    if not ran.all():
        jobs = jobs.take(np.flatnonzero(ran))
        schedule, first = (Schedule(run.start_s[ran], run.end_s[ran], run.simulate_s) for run in (schedule, first))
    wait_s = schedule.start_s - jobs.submit_s
    runtime_s = schedule.end_s - schedule.start_s
    _, begun_s, ended_s = schedule.runs
    stopped, stopped_node_h = stopped_runs(run.schedule)
    span_s = makespan_s(jobs.submit_s, schedule.end_s)
    postponed_s = postponement_s(schedule.start_s, first.start_s)
    worst = int(np.argmax(postponed_s))
    return PolicyOutcome(
        policy=run.policy,
        jobs=len(jobs),
        mean_wait_s=float(wait_s.mean()),
        mean_response_s=float((schedule.end_s - jobs.submit_s).mean()),
        mean_bounded_slowdown=float(bounded_slowdown(wait_s, runtime_s).mean()),
        mean_bounded_slowdown_by_delay=float(bounded_slowdown_by_delay(wait_s, runtime_s).mean()),
        utilization=utilization(
            schedule.by_run(jobs.size), ended_s - begun_s, machine_size=machine.size, period_s=span_s
        ),
        makespan_s=span_s,
        energy_kwh=used.energy.total / J_PER_KWH,
        idle_energy_kwh=used.energy.idle / J_PER_KWH,
        unpriced_kwh=used.unpriced_j / J_PER_KWH,
        cost=used.cost.total / J_PER_MWH,
        currency=currency,
        co2_kg=used.co2_kg,
        saving_pct=saving_pct(used.cost.total, baseline.charges.cost.total),
        worst_postponement_s=int(postponed_s[worst]),
        worst_postponement_job_id=int(jobs.job_id[worst]),
        response_ratio=response_ratio(schedule.end_s - jobs.submit_s, first.end_s - jobs.submit_s),
        simulate_s=schedule.simulate_s,
        never_started=never_started,
        stopped_runs=stopped,
        stopped_node_h=stopped_node_h,
        partition_wait_s=_partition_waits(jobs, wait_s, names),
        until_s=run.usage.until_s,
        **_optional_figures(run, baseline),
    )


def _partition_waits(jobs: Jobs, wait_s: Int64, names: LogNames) -> dict[str, float]:
    """Return the mean wait of the jobs of each partition, {} if there is only one."""
    partition, texts = names.partitions(jobs)
    known = partition >= 0
    count = np.bincount(partition[known], minlength=len(texts))
    total_s = np.bincount(partition[known], weights=wait_s[known], minlength=len(texts))
    if np.count_nonzero(count) < 2:
        return {}
    return {text: float(total_s[at] / count[at]) for at, text in enumerate(texts) if count[at]}


def _optional_figures(run: PolicyRun, baseline: PolicyRun) -> dict[str, Any]:
    """Return the fields of PolicyOutcome that only sleeping nodes, a machine room or demand charges have."""
    cost, cost_before = run.charges.cost.total / J_PER_MWH, baseline.charges.cost.total / J_PER_MWH
    found: dict[str, Any] = {}
    if run.sleep:
        figures = run.sleep.figures
        captured = captured_share(
            run.charges.energy.idle, always_on=figures.always_on_idle_j, lowest=run.sleep.lowest_idle_j
        )
        found |= {
            "idle_saved_pct": figures.idle_saved_pct,
            "captured_pct": 100 * captured,
            "asleep_share": figures.inactive_share,
            "utilization_of_active": figures.utilization_of_active,
            "cycles_per_node_day": figures.power_cycles_per_node_day,
            "most_cycles_of_a_node": figures.most_power_cycles_of_a_node,
            "mean_sleep_delay_s": figures.mean_boot_delay_s,
            "delayed_share": figures.delayed_share,
            "worst_sleep_delay_s": figures.largest_boot_delay_s,
            "above_sla_share": figures.above_bound_share,
        }
    if run.cooling and baseline.cooling:
        found |= {
            "cooling_kwh": run.cooling.kwh,
            "cooling_cost": run.cooling.cost,
            "cooling_co2_kg": run.cooling.co2_kg,
            "pue": run.cooling.pue,
            "cooled_saving_pct": saving_pct(cost + run.cooling.cost, cost_before + baseline.cooling.cost),
        }
    if run.demand and baseline.demand:
        bill = cost + run.demand.cost
        saved_pct = saving_pct(bill, cost_before + baseline.demand.cost)
        found |= {"peak_kw": run.demand.peak_kw, "bill": bill, "bill_saving_pct": saved_pct}
    return found


def saving_pct(cost: float, baseline: float) -> float:
    """Return by how many per cent `cost` is below the baseline's; 0 if that is nothing."""
    return 100 * (baseline - cost) / abs(baseline) if baseline else 0.0

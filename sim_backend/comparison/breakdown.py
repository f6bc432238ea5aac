"""Breaks the energy and the money of a run down by power class, user or partition of jobs, by day, week or month."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.constants import DAY_S, J_PER_KWH, J_PER_MWH
from offpeak.model.job_power import POWER_CLASSES, power_class
from offpeak.model.jobs import NUMBERS_ONLY, LogNames
from offpeak.model.local_time import local_days, to_local_s, to_unix_s, weekday
from offpeak.model.step_integrals import (
    StepIntegral,
    Usage,
    charge_by_job,
    integrals,
    integrate_constant,
    integrate_series,
)
from offpeak.model.zones import date_text
from offpeak.sim_backend.case.electricity import AlignedSeries
from offpeak.sim_backend.case.replay_case import ReplayCase
from offpeak.sim_backend.comparison.compare import Comparison, draw_of_pool, usage_of
from offpeak.sim_backend.comparison.outcome import PolicyRun
from offpeak.sim_backend.engine.rules import NOT_YET
from offpeak.sim_backend.nodes.power_curve import StandingDraw, standing_charge
from offpeak.sim_backend.replay.schedule import Schedule

NO_PARTITION = "none"
MOST_PERIODS = 120


@dataclass(frozen=True)
class BreakdownRow:
    """One group: its jobs (for a day: those that end on it), their mean wait, energy and money.

    A day has the energy and money of idle units and sleeping nodes too; jobs alone have none of it.
    """

    group: str
    jobs: int
    mean_wait_s: float
    energy_kwh: float
    cost: float


def breakdown(
    comparison: Comparison, run: PolicyRun, kind: str, names: LogNames = NUMBERS_ONLY
) -> tuple[BreakdownRow, ...]:
    """Return the rows of a run by "class", "user", "partition" or "day"; `names` are those of the log.

    A job that never started is in none of them.
    """
    case, schedule = comparison.case, run.schedule
    ran = schedule.start_s != NOT_YET
    if not ran.all():
        case = replace(case, jobs=case.jobs.take(ran), node_power_w=case.node_power_w[ran])
        ended = Schedule(schedule.start_s[ran], schedule.end_s[ran], schedule.simulate_s)
        run = replace(run, schedule=ended, usage=usage_of(case, ended, run.usage.begin_s, run.usage.until_s))
    if kind == "class":
        return _by_group(case, run, POWER_CLASSES, power_class(case.node_power_w).astype(np.int64))
    if kind == "user":
        users, group = np.unique(case.jobs.user, return_inverse=True)
        return _by_group(case, run, tuple(names.user_text(int(user)) for user in users), group)
    if kind == "partition":
        partition, texts = names.partitions(case.jobs)
        rows = _by_group(case, run, (*texts, NO_PARTITION), np.where(partition < 0, len(texts), partition))
        return tuple(row for row in rows if row.jobs)
    aligned = case.prices.aligned
    edges_s = day_edges_s(aligned, run.usage.begin_s, run.usage.until_s)
    days = tuple(date_text(int(edge_s) + aligned.offset_s, aligned.zone) for edge_s in edges_s[:-1])
    ending = np.clip(np.searchsorted(edges_s, run.schedule.end_s, side="left") - 1, 0, len(days) - 1)
    energy_j, cost = (used_by_day(run, edges_s, meter) for meter in _meters(case))
    return _rows(case, run, days, ending, energy_j, cost)


def _by_group(case: ReplayCase, run: PolicyRun, names: tuple[str, ...], group: Int64) -> tuple[BreakdownRow, ...]:
    of_run = run.schedule.by_run(group)
    energy_j, cost = (_sums(of_run, charge_by_job(meter, run.usage), len(names)) for meter in _meters(case))
    return _rows(case, run, names, group, energy_j, cost)


def _meters(case: ReplayCase) -> tuple[StepIntegral, StepIntegral]:
    """Return the meters of energy and money."""
    aligned = case.prices.aligned
    return integrate_constant(1.0), integrate_series(aligned.series, aligned.offset_s)


def day_edges_s(aligned: AlignedSeries, begin_s: int, until_s: int) -> Int64:
    """Return the begin, the local midnights between it and the end, and the end [trace seconds]."""
    begin, until = begin_s + aligned.offset_s, until_s + aligned.offset_s
    midnights, _ = to_unix_s(local_days(begin, until, aligned.zone) * DAY_S, aligned.zone)
    inner = midnights[(midnights > begin) & (midnights < until)]
    return np.concatenate([[begin], inner, [until]]) - aligned.offset_s


def used_by_day(run: PolicyRun, edges_s: Int64, meter: StepIntegral) -> Float64:
    """Return the integral of the machine's power times the meter's series between neighbouring edges, float64[days].

    The edges are those of the run's period.
    """
    if run.sleep is not None:
        parts = [_by_edges(pool.usage, edges_s, meter, draw_of_pool(pool)) for pool in run.sleep.pools]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]
    return _by_edges(run.usage, edges_s, meter, None)


def _by_edges(usage: Usage, edges_s: Int64, meter: StepIntegral, draw: StandingDraw | None) -> Float64:
    start_s, end_s = usage.start_s, usage.end_s
    days = len(edges_s) - 1
    first = np.clip(np.searchsorted(edges_s, start_s, side="right") - 1, 0, days - 1)
    last = np.clip(np.searchsorted(edges_s, end_s, side="left") - 1, first, days - 1)
    pieces = np.where(start_s == NOT_YET, 0, last - first + 1)
    job = np.repeat(np.arange(len(start_s)), pieces)
    day = first[job] + np.arange(len(job)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    run_in_day = integrals(meter, np.maximum(start_s[job], edges_s[day]), np.minimum(end_s[job], edges_s[day + 1]))
    size, power_w = usage.size[job], usage.node_power_w[job]
    jobs = _sums(day, size * power_w * run_in_day, days)
    busy = _sums(day, size * run_in_day, days)
    if draw is None:
        whole = usage.machine_size * integrals(meter, edges_s[:-1], edges_s[1:])
        return jobs + usage.idle_w * (whole - busy)
    return jobs + standing_charge(draw, usage.idle_w, edges_s, meter) - usage.idle_w * busy


def _sums(group: Int64, value: Float64, groups: int) -> Float64:
    return np.bincount(group, weights=value, minlength=groups).astype(np.float64)


def _rows(
    case: ReplayCase, run: PolicyRun, names: tuple[str, ...], group: Int64, energy_j: Float64, cost: Float64
) -> tuple[BreakdownRow, ...]:
    count = np.bincount(group, minlength=len(names))
    wait_s = _sums(group, (run.schedule.start_s - case.jobs.submit_s).astype(np.float64), len(names))
    return tuple(
        BreakdownRow(
            group=name,
            jobs=int(count[at]),
            mean_wait_s=float(wait_s[at]) / max(int(count[at]), 1),
            energy_kwh=float(energy_j[at]) / J_PER_KWH,
            cost=float(cost[at]) / J_PER_MWH,
        )
        for at, name in enumerate(names)
    )


@dataclass(frozen=True)
class Periods:
    """Days, weeks from Monday or months of the local calendar; the first and the last may be cut.

    `edges_s` are trace seconds; `unit` is "day", "week" or "month".
    """

    edges_s: Int64
    unit: str

    def until(self, until_s: int) -> "Periods":
        """Return the periods up to that second."""
        return replace(self, edges_s=np.append(self.edges_s[self.edges_s < until_s], until_s))


def cost_periods(comparison: Comparison) -> Periods:
    """Return the shortest periods of which the comparison has at most 120, or its months."""
    aligned = comparison.case.prices.aligned
    days_s = day_edges_s(aligned, comparison.begin_s, comparison.until_s)
    day = to_local_s(days_s + aligned.offset_s, aligned.zone) // DAY_S
    begins = {
        "day": np.ones(len(day), np.bool_),
        "week": weekday(day) == 0,
        "month": day.astype("datetime64[D]") == day.astype("datetime64[D]").astype("datetime64[M]"),
    }
    unit = next((unit for unit, begin in begins.items() if np.count_nonzero(begin) <= MOST_PERIODS), "month")
    kept = begins[unit].copy()
    kept[[0, -1]] = True
    return Periods(days_s[kept], unit)


def cost_by_period(case: ReplayCase, run: PolicyRun, periods: Periods) -> Float64:
    """Return what the machine's electricity costs in each period, float64[periods], in the currency of the prices.

    The periods are those until the end of the run's own.
    """
    aligned = case.prices.aligned
    price = integrate_series(aligned.series, aligned.offset_s)
    return used_by_day(run, periods.edges_s, price) / J_PER_MWH

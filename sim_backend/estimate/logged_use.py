"""What a cluster used while its log was made: energy and money of the starts and ends that were logged."""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64
from offpeak.model.jobs import Jobs
from offpeak.model.schedule_metrics import utilization
from offpeak.model.step_integrals import J_PER_KWH, J_PER_MWH
from sim_backend.compare import Case, meters_of, usage_of
from sim_backend.outcome import charges_of
from sim_backend.replay import Schedule


@dataclass(frozen=True)
class Bounds:
    """A figure, and what it may at least and at most be; all three are the same where nothing is assumed."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class LoggedUse:
    """Energy, money and waiting of a log as it was, over [begin_s, until_s) of the trace's clock.

    `waiting_share` is the share of the period in which at least one job waited: without that there is nothing to
    reorder. `mean_price` is the price of the energy used, `plain_mean_price` the period's mean, both per MWh.
    """

    begin_s: int
    until_s: int
    energy_kwh: Bounds
    idle_energy_kwh: float
    cost: Bounds
    currency: str
    unpriced_kwh: float
    co2_kg: float | None
    mean_price: float
    plain_mean_price: float
    utilization: float
    mean_wait_s: float
    waiting_share: float


def logged_use(case: Case, draws_w: tuple[Float64, Float64, Float64], begin_s: int, until_s: int) -> LoggedUse:
    """Return what was used if the jobs drew the lowest, the likeliest and the highest `draws_w` [W per unit].

    All starts are logged and all runs lie within the period; processors are those used, not those requested. The prices
    of `case` reach to its end.
    """
    meters = meters_of(case, until_s)
    case = replace(case, jobs=case.jobs.as_logged())
    jobs = case.jobs
    schedule = Schedule(jobs.logged_start_s, jobs.logged_start_s + jobs.runtime_s, 0.0)
    charges = [
        charges_of(usage_of(replace(case, node_power_w=draw_w), schedule, begin_s, until_s), meters)
        for draw_w in draws_w
    ]
    energy = Bounds(*(each.energy.total / J_PER_KWH for each in charges))
    # Where prices are negative, who draws most pays least.
    costs = [each.cost.total / J_PER_MWH for each in charges]
    cost = Bounds(min(costs), costs[1], max(costs))
    known_kwh = energy.middle - charges[1].unpriced_j / J_PER_KWH
    return LoggedUse(
        begin_s=begin_s,
        until_s=until_s,
        energy_kwh=energy,
        idle_energy_kwh=charges[1].energy.idle / J_PER_KWH,
        cost=cost,
        currency=meters.currency,
        unpriced_kwh=charges[1].unpriced_j / J_PER_KWH,
        co2_kg=charges[1].co2_kg,
        mean_price=1000 * cost.middle / known_kwh if known_kwh else 0.0,
        plain_mean_price=_mean_price(case, begin_s, until_s),
        utilization=utilization(jobs.size, jobs.runtime_s, machine_size=case.machine.size, period_s=until_s - begin_s),
        mean_wait_s=float((jobs.logged_start_s - jobs.submit_s).mean()),
        waiting_share=waiting_share(jobs, begin_s, until_s),
    )


def _mean_price(case: Case, begin_s: int, until_s: int) -> float:
    """Return the mean of the known prices over the period [per MWh]."""
    laid = case.prices.laid.until(until_s)
    edges_s = np.append(laid.series.start_s, laid.series.end_s) - laid.offset_s
    length_s = np.diff(np.clip(edges_s, begin_s, until_s)) * laid.series.known
    return float(np.dot(length_s, np.nan_to_num(laid.series.value)) / max(length_s.sum(), 1))


def waiting_share(jobs: Jobs, begin_s: int, until_s: int) -> float:
    """Return the share of the period in which at least one job waited."""
    latest_s = np.maximum.accumulate(np.concatenate([[begin_s], jobs.logged_start_s]))[:-1]
    alone_from_s = np.maximum(jobs.submit_s, latest_s)
    return float(np.maximum(jobs.logged_start_s - alone_from_s, 0).sum()) / max(until_s - begin_s, 1)

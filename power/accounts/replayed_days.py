"""What the days of a time cost by when its jobs ran: as they did, and as replays of the same jobs start them.

All are charged alike: the same draws, the same prices, every node on. What sleeping nodes saved is another account.
"""

from dataclasses import dataclass, replace

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.step_integrals import J_PER_KWH, J_PER_MWH
from sim_backend.compare import ReplayCase, meters_of, usage_of
from sim_backend.engine.state import PeakTimes
from sim_backend.outcome import Meters, charges_of
from sim_backend.policy import Policy
from sim_backend.replay import Schedule, replay
from sim_backend.replications import shifted

REPLAYS = 20


@dataclass(frozen=True)
class Bills:
    """Money and CO2 [kg] of each period, float64[periods], the CO2 None without an intensity; and the mean wait."""

    cost: Float64
    co2_kg: Float64 | None
    mean_wait_s: float


@dataclass(frozen=True)
class BilledDays:
    """The bills of the log, and those of the policies in each replay.

    Behind the last day stands one more period: what a policy moves out of the time is paid there, by all alike.
    """

    logged: Bills
    replayed: tuple[tuple[Bills, ...], ...]


def billed_days(
    case: ReplayCase, policies: tuple[Policy, ...], peaks: PeakTimes, day_edges_s: Int64, *, seed: int
) -> BilledDays:
    """Return the bills of the days between these edges [trace seconds]; jobs start in the log and in REPLAYS replays.

    Submit times are shifted by up to a minute in each replay: the same for all policies.
    """
    cases = [shifted(case, np.random.default_rng([seed, number])) for number in range(REPLAYS)]
    schedules = [tuple(_replay(each, policy, peaks) for policy in policies) for each in cases]
    logged = Schedule(case.jobs.logged_start_s, case.jobs.logged_start_s + case.jobs.runtime_s, 0.0)
    ends_s = [int(each.end_s.max()) for each in (logged, *(each for run in schedules for each in run))]
    edges_s = np.append(day_edges_s, max(*ends_s, int(day_edges_s[-1]) + 1))
    reaching = replace(case, prices=replace(case.prices, laid=case.prices.laid.until(int(edges_s[-1]))))
    meters = meters_of(reaching, int(edges_s[-1]))
    return BilledDays(
        _bills(case, logged, edges_s, meters),
        tuple(
            tuple(_bills(each, schedule, edges_s, meters) for schedule in run)
            for each, run in zip(cases, schedules, strict=True)
        ),
    )


def _replay(case: ReplayCase, policy: Policy, peaks: PeakTimes) -> Schedule:
    return replay(case.jobs, case.node_power_w, machine_size=case.machine.size, policy=policy, peaks=peaks)


def _bills(case: ReplayCase, schedule: Schedule, edges_s: Int64, meters: Meters) -> Bills:
    periods = zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), strict=True)
    charges = [charges_of(usage_of(case, _within(schedule, *each), *each), meters) for each in periods]
    cost = np.array([each.cost.total for each in charges]) / J_PER_MWH
    co2_kg = np.array([each.carbon.total for each in charges if each.carbon]) / J_PER_KWH / 1000
    wait_s = float((schedule.start_s - case.jobs.submit_s).mean())
    return Bills(cost, co2_kg if meters.carbon else None, wait_s)


def _within(schedule: Schedule, begin_s: int, until_s: int) -> Schedule:
    """Return what lies in that period; a job that does not takes no time."""
    edges = (begin_s, until_s)
    return Schedule(np.clip(schedule.start_s, *edges), np.clip(schedule.end_s, *edges), 0.0)

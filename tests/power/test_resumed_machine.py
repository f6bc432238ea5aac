"""A machine resumed from a snapshot goes on as the replay does that the snapshot was taken of."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_logs import PLAIN, Log, log_of, logs, policy_of
from random_prices import QUICK, prices_of

from offpeak.model.snapshot import Snapshot
from offpeak.plugin.capacity.port import CapacityPolicy, Fleet
from offpeak.plugin.capacity.rules import CapacitySchedule
from offpeak.power.capacity.price_profile import OfferProfile, PowerTerms, make_power_terms
from offpeak.power.capacity.profile_simulation import ProfileSimulation
from offpeak.settings.capacity import CapacitySettings
from offpeak.sim_backend.engine.rules import NEVER, NOT_YET
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, unit_replay

LONG_AGO_S = -(1 << 40)


@given(logs(shortest_s=1), st.data())
def test_with_exact_estimates_the_what_if_is_what_happens(log: Log, data: st.DataObject) -> None:
    log = log.with_exact_estimates()
    begin_s = int(log.jobs.submit_s[0])
    second = begin_s + data.draw(st.integers(0, 150))
    gaps_s = data.draw(st.lists(st.integers(1, 80), min_size=1, max_size=5))
    offered = data.draw(st.lists(st.integers(0, log.machine_size), min_size=len(gaps_s), max_size=len(gaps_s)))
    edges_s = begin_s + np.cumsum([0, *gaps_s])
    terms = make_power_terms(Fleet(log.machine_size, 1, QUICK), CapacitySettings())
    snapshot, queued, start_s = replayed(log, schedule_of(log, edges_s, offered, terms), terms, second)
    ahead = edges_s[1:-1] > snapshot.now_s
    present = offered[max(int(np.searchsorted(edges_s[:-1], snapshot.now_s, side="right")) - 1, 0)]
    at_s = np.append(snapshot.now_s, edges_s[1:-1][ahead])
    units = np.append(present if edges_s[-1] > snapshot.now_s else log.machine_size, np.array(offered)[1:][ahead])
    profile = OfferProfile(at_s, units, max(int(edges_s[-1]), snapshot.now_s + 1))
    plan = ProfileSimulation(snapshot, prices_of((100, 50)), terms).plan(profile)
    assert plan.start_s[len(snapshot.running.size) :].tolist() == start_s[queued].tolist()


def test_a_job_is_put_beside_a_reservation_as_soon_as_nodes_come_up_for_it() -> None:
    """The second node sleeps when the pass of second 3 begins, and is woken behind it for the wide job."""
    narrow, wide = (0, 1, 1, 1, 1), (0, 1, 1, 2, 1)
    log = log_of([narrow, narrow, narrow, wide, narrow], machine_size=3)
    terms = make_power_terms(Fleet(3, 1, QUICK), CapacitySettings())
    schedule = schedule_of(log, np.array([0, 1]), [1], terms)
    assert replayed(log, schedule, terms, 0)[2].tolist() == [0, 1, 2, 11, 3]


def schedule_of(log: Log, edges_s: np.ndarray, offered: list[int], terms: PowerTerms) -> CapacitySchedule:
    """Return the course that offers these nodes between the edges, and all behind them."""
    at_s, target = edges_s.copy(), np.array([*offered, log.machine_size])
    at_s[0] = LONG_AGO_S
    return CapacitySchedule(at_s, target, np.zeros_like(target), np.tile(terms.after_s, (len(at_s), 1)))


def replayed(
    log: Log, schedule: CapacitySchedule, terms: PowerTerms, second: int
) -> tuple[Snapshot, np.ndarray, np.ndarray]:
    """Return the snapshot at that second, which jobs wait then, and when the replay without later jobs starts each."""
    jobs = log.jobs.take(log.jobs.submit_s <= second)
    policy = replace(policy_of(PLAIN), capacity=(CapacityPolicy("offered", terms.capacity, schedule),))
    machine = PoweredMachine(log.machine_size, 1, QUICK)
    running = unit_replay(jobs, log.node_power_w[: len(jobs)], machine, policy)
    running.go_on(second)
    snapshot, waiting = running.snapshot(), np.flatnonzero(running.start_s == NOT_YET)
    running.go_on(NEVER - 1)
    return snapshot, waiting, running.start_s

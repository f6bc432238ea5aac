"""On several pools the engine starts every job when the plain scheduler does."""

import numpy as np
from hypothesis import given
from plain_pools import PlainMixed
from random_clusters import MANY, cases, rules
from random_logs import PLAIN, policy_of

from offpeak.model.limits import PreemptMode
from offpeak.sim_backend.engine.advance import advance
from offpeak.sim_backend.engine.allocation import NO_PIECE
from offpeak.sim_backend.engine.cells import new_picks
from offpeak.sim_backend.engine.preemption import with_room
from offpeak.sim_backend.engine.rules import FULL, NEVER, NO_PEAKS
from offpeak.sim_backend.engine.state import new_state
from offpeak.sim_backend.replay.replay import replay_case
from offpeak.sim_backend.replay.schedule import Schedule

POLICY = policy_of(PLAIN)


def plain(random, scheduling) -> PlainMixed:
    return PlainMixed(
        random.cluster,
        random.jobs,
        scheduling.reservations,
        completing_s=scheduling.completing_s,
        sched_interval_s=scheduling.sched_interval_s,
        bf_interval_s=scheduling.bf_interval_s,
        bf_resolution_s=scheduling.bf_resolution_s,
        end_window_s=scheduling.end_window_s,
        end_window_step_s=scheduling.end_window_step_s,
        requeue_s=scheduling.requeue_s,
        ends_before=scheduling.ends_before,
        widths=random.case.workload.size.tolist() if scheduling.widest_first else [],
    )


def schedule(random, scheduling) -> Schedule:
    return replay_case(random.case, POLICY, scheduling)


@given(cases(), rules())
def test_whole_and_shared_nodes_partitions_arrays_and_limits(random, scheduling):
    assert schedule(random, scheduling).start_s.tolist() == plain(random, scheduling).run()


@given(cases(most_requests=MANY), rules(timed=True))
def test_requests_that_nearly_all_differ(random, scheduling):
    assert schedule(random, scheduling).start_s.tolist() == plain(random, scheduling).run()


@given(cases(), rules(timed=True))
def test_intervals_and_completing_nodes(random, scheduling):
    assert schedule(random, scheduling).start_s.tolist() == plain(random, scheduling).run()


@given(cases(preempts=True, exempt_s=4), rules())
def test_jobs_that_stop_others(random, scheduling):
    assert_stops_alike(random, scheduling)


@given(cases(preempts=True), rules(timed=True))
def test_jobs_that_stop_others_at_intervals(random, scheduling):
    assert_stops_alike(random, scheduling)


def assert_stops_alike(random, scheduling):
    expected, found = plain(random, scheduling), schedule(random, scheduling)
    assert found.start_s.tolist() == expected.run()
    lost = [run for *run, mode in expected.stopped if mode is PreemptMode.REQUEUE]
    assert sorted(zip(*(column.tolist() for column in found.lost), strict=True)) == sorted(map(tuple, lost))
    assert sorted(found.cancelled.tolist()) == sorted(
        job for job, *_, mode in expected.stopped if mode is PreemptMode.CANCEL
    )


@given(cases(), rules(timed=True))
def test_cells_hold_what_running_jobs_take_at_each_second_and_never_more_than_they_have(random, scheduling):
    tables, workload = random.case.tables, random.case.workload
    state = new_state(tables, workload, scheduling, new_picks(tables))
    for second in range(int(workload.submit_s.max(initial=0)) + 60):
        advance(tables, workload, NO_PEAKS, scheduling, state, second)
        assert (state.free >= 0).all()
        assert (tables.capacity - state.free == held(tables, state)).all()
        assert (state.ahead == state.free).all()
        is_held = state.holds.cell_holds > 0
        assert (state.late == state.free)[:, ~is_held].all()
        started = state.start_s >= 0
        assert (state.start_s >= workload.submit_s)[started].all()
        assert (state.limit_used <= workload.limits.most).all()
        assert state.limit_used.tolist() == taken(workload.limits, state)
        assert state.groups["waiting"].sum() == (~started & (workload.submit_s <= second)).sum()


@given(cases(preempts=True, exempt_s=4), rules(timed=True))
def test_jobs_that_others_stop_run_to_their_ends_and_limits_hold(random, scheduling):
    tables, workload = random.case.tables, random.case.workload
    state = new_state(tables, workload, scheduling, new_picks(tables))
    second = 0
    while state.scalars["waiting"][0] or state.scalars["running"][0] or state.scalars["next_submit_s"][0] < NEVER:
        while advance(tables, workload, NO_PEAKS, scheduling, state, second) == FULL:
            state = with_room(state, tables)
        assert (state.free >= 0).all()
        assert (tables.capacity - state.free == held(tables, state)).all()
        assert (state.ahead == state.free).all()
        assert (state.limit_used <= workload.limits.most).all()
        assert state.limit_used.tolist() == taken(workload.limits, state)
        second += 1
        assert second < 20_000
    found = schedule(random, scheduling)
    assert (found.start_s >= workload.submit_s).all()
    assert np.bincount(found.places.run, minlength=len(random.jobs) + len(found.lost.job)).all()
    is_last = found.places.run < len(random.jobs)
    assert (found.places.job[is_last] == found.places.run[is_last]).all()
    assert (found.places.job[~is_last] == found.lost.job[found.places.run[~is_last] - len(random.jobs)]).all()


def held(tables, state):
    found = np.zeros_like(state.free)
    for slot in state.ends[: int(state.scalars["running"][0])].tolist():
        piece = state.slots.pieces[slot]
        while piece != NO_PIECE:
            need = tables.need[state.pieces.option[piece]]
            found[:, state.pieces.cell[piece]] += state.pieces.units[piece] * need
            piece = state.pieces.following[piece]
    return found


def taken(limits, state):
    found = np.zeros(len(limits.most), dtype=np.int64)
    for slot in state.ends[: int(state.scalars["running"][0])].tolist():
        demand = limits.demand[state.slots.job[slot]]
        rows = slice(limits.first[demand], limits.first[demand + 1])
        np.add.at(found, limits.limit[rows], limits.amount[rows])
    return found.tolist()


@given(cases(in_turn=True), rules(reservations=[1, 2, MANY]))
def test_backfill_never_delays_the_first_reservation_of_a_blocked_job(random, scheduling):
    scheduler = plain(random, scheduling)
    scheduler.run()
    starts_s = schedule(random, scheduling).start_s
    assert all(starts_s[job] <= reserved_s for job, reserved_s in scheduler.first_reservation_s.items())

"""The widest waiting job that fits and ends in time, as the ranks by width find it, is the one that best fit wants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_logs import PLAIN, POLICIES, log_of, logs, plain, rules, starts
from random_power import per_second_rules, plain_power, powered, powered_logs

from offpeak.sim_backend.engine import state
from offpeak.sim_backend.engine.queue import note_estimate, rank_waiting, widest_in_time
from offpeak.sim_backend.engine.state import BEST_FIT, NEVER, ByWidth, Queue

NONE = np.empty(0, dtype=np.int64)


def best_fit(queue: Queue, free: int, longest_s: int) -> int:
    """Return what `widest_in_time` does, by looking at all positions."""
    best, widest = -1, 0
    for position in range(len(queue.size)):
        if widest < queue.size[position] <= free and queue.estimate_s[position] <= longest_s:
            best, widest = position, queue.size[position]
    return best


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 400), st.sampled_from([1, 2, 7, 8, 100]))
def test_widest_search_equals_a_plain_search(seed, jobs, widest):
    random = np.random.default_rng(seed)
    size = random.integers(1, widest + 1, jobs)
    waiting = np.sort(random.choice(jobs, random.integers(1, jobs + 1), replace=False))
    queue = Queue(waiting, size[waiting], random.integers(0, 1000, len(waiting)), NONE * 1.0, NONE, NONE, NONE)
    tree = np.empty(2 << (jobs - 1).bit_length(), dtype=np.int64)
    behind = np.empty(int(size.max()) + 1, dtype=np.int64)
    by_width = ByWidth(*np.empty((2, jobs), dtype=np.int32), behind, tree)
    rank_waiting(by_width, queue, size, 0, len(waiting))
    for _ in range(100):
        free, longest_s = int(random.integers(0, 2 * widest)), int(random.integers(-1, 300))
        found = widest_in_time(by_width, queue, len(waiting), free, longest_s)
        assert found == best_fit(queue, free, longest_s)
        if found >= 0:
            queue.size[found] = NEVER
            note_estimate(by_width, queue.job[found], NEVER)


@pytest.fixture
def ranked_at_once(monkeypatch):
    """Let a queue of one job be long enough for ranks by width."""
    monkeypatch.setattr(state, "RANK_FROM", 0)


@pytest.mark.usefixtures("ranked_at_once")
def test_schedules_are_those_of_the_plain_scheduler():
    @settings(max_examples=150, deadline=None)
    @given(logs(), rules(disciplines=[BEST_FIT], policies=POLICIES))
    def compared(log, rules):
        assert starts(log, rules) == plain(log, rules).run()

    compared()


@pytest.mark.usefixtures("ranked_at_once")
def test_schedules_are_those_of_the_plain_machine_where_nodes_sleep_and_fail():
    @settings(max_examples=40, deadline=None)
    @given(powered_logs(scheduling=per_second_rules(disciplines=[BEST_FIT])))
    def compared(case):
        assert powered(case).start_s.tolist() == plain_power(case).run()

    compared()


def test_a_queue_becomes_long():
    """From more than RANK_FROM waiting jobs on the ranks decide, and go on to when the queue is short again."""
    random = np.random.default_rng(1)
    submit_s = np.sort(random.choice([0, 0, 0, 2000], 2 * state.RANK_FROM))
    estimate_s, size = random.integers(1, 60, len(submit_s)), random.integers(1, 12, len(submit_s))
    runtime_s = [int(random.integers(0, estimate + 3)) for estimate in estimate_s]
    rows = list(zip(submit_s, runtime_s, estimate_s, size, [1] * len(submit_s), strict=True))
    log, rules = log_of(rows, machine_size=40), PLAIN._replace(discipline=BEST_FIT)
    assert starts(log, rules) == plain(log, rules).run()

"""An agent at rest decides without numba: kernels that Python runs first return what their machine code returns."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak import compiled
from offpeak.bits import product64
from offpeak.plugin.capacity.rules import (
    BY_IDLE_AGE,
    BY_NUMBER,
    BY_WEAR,
    NEVER,
    CapacityRules,
    CapacitySchedule,
    NodeTable,
)
from offpeak.plugin.capacity.sleepers import (
    NO_DEPTH,
    SleepCriteria,
    expect_needs,
    follow_queue,
    new_record,
    pick_sleepers,
)
from offpeak.plugin.window_order import choose_order, scratch
from offpeak.plugin.window_policy import GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE
from offpeak.predictors.trees.running_statistics import CategoryTable, look_up, remember

HEAVY = ("numba", "llvmlite", "scipy", "pyarrow", "pandas", "statsmodels", "matplotlib", "sim_backend")
NOON_S = 43_200 + 86_400 * 10
small = st.integers(0, 60)


def both(kernel, *arguments):
    """Return what Python and what the machine code makes of a call: its result, and the arguments behind it."""
    ours, theirs = deepcopy(arguments), deepcopy(arguments)
    found = kernel.dispatcher(*theirs)
    with patch.dict(sys.modules), patch.object(compiled, "SLOW_S", np.inf):
        del sys.modules["offpeak.compiler"]
        return repr((kernel(*ours), ours)), repr((found, theirs))


@given(st.lists(st.tuples(small, small, st.integers(0, 2), st.booleans()), min_size=1, max_size=70), st.data())
def test_the_same_nodes_sleep(nodes, data):
    idle_s, awake_s, sleeps, is_idle = (np.array(column) for column in zip(*nodes, strict=True))
    ones = np.ones(len(nodes), dtype=np.int64)
    table = NodeTable.at_instant(
        state=np.where(is_idle, 1, 0).astype(np.int8),
        busy=0 * ones,
        idle=is_idle,
        idle_since_s=NOON_S - idle_s,
        woken_s=NOON_S - awake_s,
        slept_s=0 * ones,
        sleeps=sleeps,
        day=NOON_S // 86_400,
    )
    order = data.draw(st.sampled_from([BY_NUMBER, BY_IDLE_AGE, BY_WEAR]))
    rules = CapacityRules(True, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, BY_NUMBER, 0, 0)
    rules = rules._replace(order=order, min_awake_s=20, most_sleeps_per_day=2)
    after_s = np.array([[5, NEVER, 30]])
    schedule = CapacitySchedule(np.array([0]), np.array([9]), np.array([0]), after_s)
    criteria = SleepCriteria(table, rules, schedule, 0, NOON_S, data.draw(st.booleans()))
    ours, theirs = both(pick_sleepers, criteria, data.draw(small), np.full(len(nodes), NO_DEPTH))
    assert ours == theirs


@given(small, small, small, small)
def test_the_same_target_follows_the_queue(low, target, in_use, widest):
    rules = CapacityRules(True, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, BY_NUMBER, 0, 0)._replace(low=low)
    ours, theirs = both(follow_queue, rules, target, in_use, widest, 60)
    assert ours == theirs


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
def test_the_same_needs_are_expected(demand):
    record = new_record(20)
    for step, needed in enumerate(demand):
        ours, theirs = both(expect_needs, record, step * 600, needed, 3600)
        assert ours == theirs
        expect_needs(record, step * 600, needed, 3600)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(50, 900)), min_size=1, max_size=20),
    st.sampled_from([GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE]),
    st.booleans(),
    st.integers(0, 30),
)
def test_the_same_order_of_a_window(jobs, policy, off_peak, free):
    size, watts = np.array([job[0] for job in jobs]), np.array([job[1] for job in jobs])
    order = np.arange(len(jobs))
    found = []
    for ours in (True, False):
        found.append(order.copy())
        arguments = (found[-1], size, watts, policy, off_peak, 0, free)
        if ours:
            with patch.dict(sys.modules), patch.object(compiled, "SLOW_S", np.inf):
                sys.modules.pop("offpeak.compiler", None)
                choose_order(scratch(free), *arguments)
        else:
            choose_order.dispatcher(scratch(free), *arguments)  # type: ignore[attr-defined]
    assert found[0].tolist() == found[1].tolist()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_products_wrap(one, other):
    assert (product64(one, other) - one * other) % 2**64 == 0
    assert -(2**63) <= product64(one, other) < 2**63


@given(st.lists(st.tuples(st.integers(0, 2**40), small, st.floats(1, 1e6)), min_size=1, max_size=30))
def test_the_same_statistics_of_categories(rows):
    category = np.array([row[:2] for row in rows], dtype=np.int64)
    target = np.array([[row[2]] for row in rows])
    table = CategoryTable(np.zeros(256, np.int64), np.full((256, 7), np.nan), np.array([[0, -1], [0, 1], [1, -1]]))
    ours, theirs = both(remember, table, category, target)
    assert ours == theirs
    remember(table, category, target)
    found = np.zeros((len(rows), 3 * 7))
    ours, theirs = both(look_up, *table[:2], category, table.kinds, found)
    assert ours == theirs


def test_an_agent_loads_no_compiler_and_no_engine() -> None:
    program = f"import sys, offpeak.services.agent.service\nprint({set(HEAVY)} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"


SLOW = """\
import sys
from offpeak.compiled import kernel, python_first

@python_first
@kernel
def count(most):
    found = 0
    for each in range(most):
        found += each & 1
    return found

for most in (10, 10, 5_000_000, 10):
    print(count(most), 'numba' in sys.modules)
"""


def test_a_call_that_takes_long_is_the_last_one_in_python(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": str(repository), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "count.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["5", "False", "5", "False", "2500000", "True", "5", "True"], done.stderr

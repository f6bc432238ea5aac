"""One experiment: the run and the bound of power cycles."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.step_integrals import Usage, charge, integrate_constant
from offpeak.sim_backend.nodes.bounds import lowest_for_schedule
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine
from offpeak_studies.logs import StudyLog
from offpeak_studies.sleeping.run import (
    ALWAYS_ON,
    AT_ONCE,
    FAMILIES,
    NODES,
    POLICIES,
    SINGLE,
    SleepingExperiment,
    SleepingResult,
    fewest,
    least_cycles,
    run,
    units_per_node,
)


def result_of(log: StudyLog, policy: str, replay: int = 0) -> SleepingResult:
    return run(SleepingExperiment("small", 3, replay, policy), log)


FIRST = (*SINGLE, *(policies[0] for policies in FAMILIES.values()))


def test_figures_fit_each_other(log: StudyLog) -> None:
    for policy in POLICIES:
        result = result_of(log, policy)
        assert result.saved_pct < 100
        assert 0 <= result.delayed_pct <= 100
        assert (result.delay_s > 0) == (result.delayed_pct > 0)
        assert result.delay_s <= result.wait_s
        assert (len(result.bound) > 0) == (policy == ALWAYS_ON)
        if policy in FIRST:
            assert result == result_of(log, policy)


def test_nothing_is_saved_and_nobody_delayed_on_nodes_that_are_always_on(log: StudyLog) -> None:
    result = result_of(log, ALWAYS_ON)
    assert (result.saved_pct, result.delay_s, result.cycles) == (0, 0, 0)
    assert result != result_of(log, ALWAYS_ON, replay=1)


def test_clairvoyant_policy_needs_fewer_cycles(log: StudyLog) -> None:
    at_once, bound = result_of(log, AT_ONCE), result_of(log, ALWAYS_ON).bound
    least = bound[int(at_once.saved_pct) - 2]
    assert least is not None
    assert 0 < least < at_once.cycles


def test_nodes_are_as_the_header_or_the_sizes_of_jobs_say(log: StudyLog) -> None:
    eightfold = replace(log, size=8 * log.size, trace=with_sizes(log, 8))
    assert units_per_node(log) == 1
    assert units_per_node(eightfold) == 8
    described = replace(log, trace=replace(log.trace, processors=64, nodes=16))
    assert units_per_node(replace(described, size=64)) == 4


def with_sizes(log: StudyLog, times: int):
    jobs = log.trace.jobs
    return replace(log.trace, jobs=jobs.with_size(np.asarray(times * jobs.size)))


GAPS = st.lists(st.tuples(st.integers(-3, 6), st.integers(1, 3)), max_size=4)
WANTED = st.lists(st.integers(0, 40), min_size=1, max_size=5)
RUN = st.tuples(st.integers(0, 40_000), st.integers(1, 8_000), st.integers(1, 5))


def by_trying(saved_j: list[int], wanted_j: int) -> float:
    """Return the size of the smallest choice of single gaps that saves as much, NaN if there is none."""
    sizes = range(len(saved_j) + 1)
    return next(
        (size for size in sizes if any(sum(combination) >= wanted_j for combination in combinations(saved_j, size))),
        np.nan,
    )


@given(GAPS, WANTED)
def test_no_choice_of_gaps_has_fewer(gaps: list[tuple[int, int]], wanted: list[int]) -> None:
    saved_j, nodes = np.array(gaps, np.int64).reshape(-1, 2).T
    found = fewest(saved_j.astype(float), nodes, np.array(wanted, float))
    single = [saved for saved, count in gaps for _ in range(count)]
    assert found == pytest.approx([by_trying(single, value) for value in wanted], nan_ok=True)


def usage_of(runs: list[tuple[int, int, int]], units_per_node: int, *, behind_s: int) -> tuple[Usage, PoweredMachine]:
    """Return the usage of whole nodes, and the machine on which all of it would fit at once."""
    start_s, length_s, nodes = np.array(runs, np.int64).T
    machine = PoweredMachine(int(nodes.sum()) * units_per_node, units_per_node, NODES)
    size, end_s = nodes * units_per_node, start_s + length_s
    idle_w = NODES.idle_w / units_per_node
    return Usage(size, size * 1.0, start_s, end_s, machine.size, idle_w, 0, int(end_s.max()) + behind_s), machine


@given(st.lists(RUN, min_size=1, max_size=6), st.integers(1, 4), st.integers(0, 5000))
def test_search_ends_if_nothing_more_can_be_saved(
    runs: list[tuple[int, int, int]], units_per_node: int, behind_s: int
) -> None:
    usage, machine = usage_of(runs, units_per_node, behind_s=behind_s)
    least = least_cycles(usage, machine)
    known = [value for value in least if value is not None]
    assert least == (*known, *[None] * (len(least) - len(known)))
    assert known == sorted(known)
    assert known[0] == 0
    always_on = charge(integrate_constant(1.0), usage).idle
    lowest = lowest_for_schedule(usage, NODES, units_per_node=units_per_node)
    if always_on:
        most_pct = 100 * (1 - lowest / always_on)
        assert len(known) - 1 <= most_pct + 1e-6
        assert len(known) == 100 or most_pct < len(known) + 1e-6


def test_the_longest_gaps_come_first() -> None:
    usage, machine = usage_of([(0, 5000, 5), (35_000, 5000, 5)], 1, behind_s=0)
    node_days = machine.nodes * usage.until_s / 86_400
    sleeps = [round(value * node_days) for value in least_cycles(usage, machine) if value is not None]
    # Five nodes idle for 40,000 s, five for the 30,000 s between the jobs: 4/7 and 3/7 of the idle energy.
    assert sorted(set(sleeps)) == list(range(11))
    assert sleeps[52] == 5
    assert sleeps[54] == 6

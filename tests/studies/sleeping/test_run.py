"""One experiment: the figures of a policy fit each other, and the machine is as the log has it."""

from dataclasses import replace

import numpy as np
import pytest

from studies.logs import StudyLog
from studies.sleeping.run import ALWAYS_ON, AT_ONCE, POLICIES, SleepingExperiment, SleepingResult, run, units_per_node


def result_of(log: StudyLog, policy: str, replay: int = 0) -> SleepingResult:
    return run(SleepingExperiment("small", 3, replay, policy), log)


@pytest.mark.parametrize("policy", POLICIES)
def test_figures_fit_each_other(log: StudyLog, policy: str) -> None:
    result = result_of(log, policy)
    assert result.saved_pct < 100
    assert 0 <= result.delayed_pct <= 100
    assert (result.delay_s > 0) == (result.delayed_pct > 0)
    assert result.delay_s <= result.wait_s
    assert (len(result.bound) > 0) == (policy == ALWAYS_ON)
    assert result == result_of(log, policy)


def test_nothing_is_saved_and_nobody_delayed_on_nodes_that_are_always_on(log: StudyLog) -> None:
    result = result_of(log, ALWAYS_ON)
    assert (result.saved_pct, result.delay_s, result.cycles) == (0, 0, 0)
    assert result != result_of(log, ALWAYS_ON, replay=1)


def test_who_knows_the_future_needs_fewer_cycles(log: StudyLog) -> None:
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

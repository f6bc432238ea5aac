"""The machine's size and unit: as told, as set, or as it was used."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.model.jobs import Jobs, Trace
from offpeak.settings.replay import MachineSettings
from offpeak.sim_backend.case.machine_size import backlog_s, most_in_use, overload_note, units_of
from offpeak_studies.workloads.generate import lublin_jobs

pytestmark = pytest.mark.quick

JOBS = lublin_jobs(200, machine_size=64, seed=1)
TRACE = Trace("a log", JOBS, 64, None, None, None)


def on(nodes: int | None = None, per_node: int | None = None) -> MachineSettings:
    return MachineSettings(nodes=nodes, processors_per_node=per_node)


def logged(rows: list[tuple[int, int, int]]) -> Jobs:
    """Jobs of start, run time and size."""
    start_s, runtime_s, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    jobs = lublin_jobs(len(rows), machine_size=4, seed=1)
    return replace(jobs, submit_s=start_s, logged_start_s=start_s, runtime_s=runtime_s, size=size)


@pytest.mark.parametrize(
    ("processors", "nodes", "machine", "size"),
    [
        (64, None, on(), 64),
        (64, 8, on(), 64),
        (60, 15, on(), 60),
        (2004, 151, on(), 2015),
        (64, 16, on(per_node=1), 64),
        (None, 8, on(), 8),
        (64, 8, on(nodes=104), 104),
        (64, 8, on(nodes=100), 96),
        (64, None, on(per_node=8), 8),
        (100, None, on(per_node=8), 12),
        (None, 64, on(per_node=8), 8),
        (64, None, on(nodes=44, per_node=8), 5),
    ],
)
def test_the_machine_counts_whole_nodes(
    processors: int | None, nodes: int | None, machine: MachineSettings, size: int
) -> None:
    assert units_of(replace(TRACE, processors=processors, nodes=nodes), machine).size == size


def test_a_header_of_nodes_and_processors_tells_how_many_a_node_has() -> None:
    units = units_of(replace(TRACE, processors=60, nodes=15), on())
    assert (units.size, units.per_node, units.node_processors, units.assumed) == (60, 4, 4, ())
    assert units.jobs is TRACE.jobs
    assert units.notes == ("counted in processors, 4 of them a node: the header has 15 nodes with 60 processors",)
    equal = units_of(replace(TRACE, processors=64, nodes=64), on())
    assert (equal.per_node, equal.notes, equal.assumed) == (1, (), ())


def test_nodes_that_differ_are_assumed_equal() -> None:
    units = units_of(replace(TRACE, processors=2004, nodes=151), on())
    assert (units.size // units.per_node, units.node_processors) == (155, 13)
    assert units.assumed == ("equal nodes, as the header has 151 nodes with 2,004 processors (--processors-per-node)",)


@pytest.mark.parametrize(("processors", "nodes"), [(64, None), (None, 64)])
def test_processors_per_node_are_assumed_where_the_header_counts_one_of_the_two(
    processors: int | None, nodes: int | None
) -> None:
    trace = replace(TRACE, processors=processors, nodes=nodes)
    assert units_of(trace, on()).assumed == ("processors per node (--processors-per-node)",)
    assert units_of(trace, on(per_node=1)).assumed == ()


OVERFULL = replace(TRACE, jobs=logged([(0, 100, 30), (0, 100, 40), (10, 100, 12)]), processors=60, nodes=15)


def test_a_log_that_uses_more_than_its_header_says_is_on_a_machine_that_holds_it() -> None:
    units = units_of(OVERFULL, on(), OVERFULL)
    assert (units.size, units.per_node) == (84, 4)
    assert units.notes[0] == "size of the machine: 82 processors were in use at once where its header says 60"
    assert units.assumed == ("nodes, as 82 processors were in use at once where its header says 60",)


def test_a_replay_is_on_the_machine_of_the_header_and_says_that_the_log_used_more() -> None:
    units = units_of(OVERFULL, on())
    assert (units.size, units.assumed) == (60, ())
    assert units.notes[0] == (
        "size of the machine: 82 processors were in use at once where its header says 60; replays hold 60,"
        " unless --nodes N says otherwise"
    )


def test_a_size_that_is_set_holds_in_a_replay_and_not_in_what_happened() -> None:
    assert units_of(OVERFULL, on(nodes=40)).size == 40
    units = units_of(OVERFULL, on(nodes=40), OVERFULL)
    assert units.size == 84
    assert units.notes[0] == "size of the machine: 82 processors were in use at once where --nodes says 40"


def test_jobs_that_overlap_for_a_second_do_not_enlarge_the_machine() -> None:
    log = replace(TRACE, jobs=logged([(0, 101, 40), (100, 100, 40)]))
    assert units_of(log, on(), log).size == 64


def test_processors_that_were_used_count_and_not_those_that_were_requested() -> None:
    jobs = replace(OVERFULL.jobs, logged_size=np.array([10, 10, 10]))
    log = replace(OVERFULL, jobs=jobs)
    units = units_of(log, on(), log)
    assert (units.size, most_in_use(units.jobs)) == (60, 30)
    assert units_of(replace(OVERFULL, jobs=jobs), on(per_node=8)).jobs.as_logged().size.tolist() == [2, 2, 2]


def test_a_machine_of_unknown_size_is_refused_with_the_widest_job() -> None:
    trace = replace(TRACE, processors=None)
    with pytest.raises(BadTrace, match="a log: the log does not say how large the machine is") as problem:
        units_of(trace, on(per_node=8))
    assert problem.value.hint == f"--nodes N, in the log's own unit; its widest job asks for {JOBS.size.max()}"


def test_a_machine_without_a_whole_node_is_refused() -> None:
    with pytest.raises(BadTrace, match="a machine of 64 processors has no node of 65"):
        units_of(TRACE, on(per_node=65))


ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=30)


@given(ROWS)
def test_the_most_in_use_is_that_of_the_fullest_second(rows: list[tuple[int, int, int]]) -> None:
    fullest = max(sum(size for start, run, size in rows if start <= second < start + run) for second in range(51))
    assert most_in_use(logged(rows)) == max(fullest, *(size for _, _, size in rows))


def test_an_accounting_log_is_as_large_as_what_was_in_use() -> None:
    trace = replace(TRACE, jobs=logged([(0, 10, 3), (5, 10, 4), (10, 5, 2)]), processors=None, units_per_node=1)
    units = units_of(trace, on())
    assert (units.size, units.per_node) == (7, 1)
    assert "7 nodes, the most in use at once" in units.notes[0]
    assert units_of(trace, on(nodes=9)).size == 9
    smaller = units_of(trace, on(nodes=5))
    assert smaller.size == 5
    assert smaller.notes == ("size of the machine: 7 nodes were in use at once, where --nodes says 5; replays hold 5",)


def test_an_accounting_log_is_as_large_as_the_nodes_that_it_names() -> None:
    trace = replace(TRACE, jobs=logged([(0, 10, 3), (5, 10, 4)]), processors=None, units_per_node=1, named_nodes=40)
    units = units_of(trace, on())
    assert units.size == 40
    assert units.notes == ("size of the machine: 40 nodes, as many as the jobs name; --nodes N says otherwise",)
    assert units_of(trace, on(nodes=8)).size == 8
    assert units_of(replace(trace, named_nodes=6), on()).size == 7


def test_a_log_that_was_cut_is_as_large_as_what_was_in_use_before() -> None:
    whole = replace(TRACE, jobs=logged([(0, 10, 3), (5, 10, 4)]), processors=None, units_per_node=1)
    cut = replace(whole, jobs=logged([(11, 4, 4)]))
    assert units_of(cut, on()).size == 4
    assert units_of(cut, on(), whole).size == 7


def test_shared_nodes_are_counted_in_processors_and_set_in_nodes() -> None:
    trace = replace(TRACE, jobs=logged([(0, 10, 30), (5, 10, 50)]), processors=None, units_per_node=16)
    assert units_of(trace, on()).size == 5 * 16
    assert units_of(trace, on(nodes=8)).size == 8 * 16
    whole = units_of(trace, on(per_node=32))
    assert (whole.size, whole.per_node) == (3, 1)
    assert whole.jobs.size.tolist() == [1, 2]


@pytest.mark.parametrize(("load", "noted"), [(0.7, False), (1.3, True)])
def test_a_queue_that_grows_without_end_is_named(load, noted):
    jobs = lublin_jobs(20_000, machine_size=128, seed=1, load=load)
    note = overload_note(jobs, 128)
    assert [line.startswith(f"the jobs need {load:.2f} times what the machine can do") for line in note] == [
        True
    ] * noted


def test_of_few_jobs_nothing_follows():
    jobs = lublin_jobs(20_000, machine_size=128, seed=1, load=1.3)
    assert overload_note(jobs.take(np.arange(500)), 128) == ()


def test_the_backlog_is_what_the_machine_has_still_to_do_after_the_last_submission():
    jobs = logged([(0, 100, 4), (10, 50, 2)])
    assert backlog_s(jobs, 4) == 115
    assert backlog_s(jobs, 400) == 0

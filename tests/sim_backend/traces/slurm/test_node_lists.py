"""The nodes that a dump names, and the clusters that it holds."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.machines.node_sets import expand
from offpeak.model.jobs import Trace
from offpeak.sim_backend.traces.slurm.jobs import NamedNodes
from offpeak.sim_backend.traces.slurm.read import sacct_trace

HEADER = "Cluster|JobIDRaw|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|NodeList"
TIMES = "2026-03-02T00:00:00|2026-03-02T00:00:30|2026-03-02T00:30:30|1800|240"


def read(*rows: tuple[str, str]) -> Trace:
    lines = [f"{cluster}|{job}|u|batch|COMPLETED|{TIMES}|1|16|{nodes}" for job, (cluster, nodes) in enumerate(rows, 1)]
    return sacct_trace(LongText("\n".join([HEADER, *lines, ""]).encode()), "sacct", lenient=False, zone=UTC)


NUMBERS = st.integers(0, 49)
WIDTHS = st.sampled_from((0, 2, 3))
RANGES = st.builds(lambda first, more, width: f"{first:0{width}}-{first + more:0{width}}", NUMBERS, NUMBERS, WIDTHS)
SETS = st.lists(
    st.one_of(
        st.builds("{}[{}]".format, st.sampled_from(("n", "g0-", "rack1n")), st.lists(RANGES, min_size=1).map(",".join)),
        st.builds("{}{}".format, st.sampled_from(("n", "login")), NUMBERS),
    ),
    min_size=1,
    max_size=4,
).map(",".join)


@given(st.lists(SETS, min_size=1, max_size=4))
def test_as_many_nodes_are_counted_as_the_lists_expand_to(lists: list[str]) -> None:
    named = NamedNodes()
    named.add(text.encode() for text in lists)
    assert named.count == len({name for text in lists for name in expand(text)})


def test_a_dump_knows_how_many_nodes_its_jobs_name() -> None:
    assert read(("red", "n[01-03]"), ("red", "n[03-04],t1"), ("red", "None assigned"), ("red", "")).named_nodes == 5


def test_jobs_of_two_clusters_are_no_log() -> None:
    with pytest.raises(BadTrace, match="holds the jobs of more than one cluster: blue and red"):
        read(("red", "n1"), ("blue", "n1"))


PLAIN = "JobIDRaw|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|NodeList"


def log_of(jobs: list[tuple[int, str, int]]) -> Trace:
    """Return the log of jobs of half an hour: number, user, and begin in minutes of a day."""
    lines = [
        f"{number}|{user}|COMPLETED|{begin}|{begin}|{begin + timedelta(minutes=30)}|1800|240|1|16|n1".replace(" ", "T")
        for number, user, minute in jobs
        for begin in [datetime(2026, 3, 2) + timedelta(minutes=minute)]
    ]
    return sacct_trace(LongText("\n".join([PLAIN, *lines, ""]).encode()), "sacct", lenient=False, zone=UTC)


RED = [(1000 + job, f"u{job % 3}", 10 * job) for job in range(40)]


@pytest.mark.parametrize(
    "blue",
    [
        [(1005 + job, f"v{job % 4}", 10 * job + 3) for job in range(40)],
        # The numbers and the users happen to agree.
        [(number, user, minute + 3) for number, user, minute in RED],
    ],
)
def test_two_clusters_without_their_names_are_no_log(blue: list[tuple[int, str, int]]) -> None:
    with pytest.raises(BadTrace, match=r"more than one cluster: \d\d lines have the number of a job of another user"):
        log_of(RED + blue)


@pytest.mark.parametrize(
    "others",
    [
        # Requeued jobs, a scheduler that was installed anew, and a few contradictions.
        [(number, user, minute + 45) for number, user, minute in RED],
        [(number, "new", minute + 1000) for number, _, minute in RED],
        [(number, user, minute + 3) for number, user, minute in RED[:3]],
    ],
)
def test_other_lines_of_the_same_numbers_are_one_log(others: list[tuple[int, str, int]]) -> None:
    assert len(log_of(RED + others).jobs) == len(RED) + len(others)

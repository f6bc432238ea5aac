"""Which sleeping nodes are woken for jobs: as few as it takes, and none that would not help."""

from collections.abc import Mapping
from typing import Any

import pytest
from queue_site import a_job

from offpeak.model.orders import PowerState
from offpeak.model.request import Chunk, Request
from offpeak.plugin.pbs.demand import StartChance, with_demand
from offpeak.plugin.pbs.jobs import PbsJob, chunks_of
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import Node, NodeUse

pytestmark = pytest.mark.quick

NOW_S = 1_795_300_000
FAST = (frozenset({"fast"}),)


def pbs_job(number: int, request: str, *, apart: bool = True, **fields: Any) -> PbsJob:
    whole = bool(fields.get("whole_nodes"))
    known = {"priority": 0, "reason": "", "request": Request(("batch",), chunks_of(request), apart, whole)}
    return PbsJob(a_job(number, **{**known, "whole_nodes": False, **fields}), number)


def a_node(name: str, power: PowerState = PowerState.ON, *, used: int = 0, **fields: Any) -> Node:
    use = NodeUse.USED if used else NodeUse.FREE
    node = Node(
        name, "", use, power, False, False, True, False, False, "", "", None, ("batch",), (), 8, used, 1, None, None
    )
    return node._replace(**fields)


DOWN = PowerState.OFF


PATIENCE_S = 960


def planned(jobs: list[PbsJob], nodes: list[Node]) -> dict[str, str]:
    return {job.job_id: job.hosts for job in with_demand(jobs, nodes, NOW_S, patience_s=PATIENCE_S).jobs if job.hosts}


def test_no_node_wakes_if_the_awake_nodes_suffice() -> None:
    nodes = [a_node("n1", used=4), a_node("n2", DOWN)]
    assert planned([pbs_job(1, "1:ppn=4")], nodes) == {"1": "n1"}
    assert planned([pbs_job(1, "1:ppn=4"), pbs_job(2, "1:ppn=4")], nodes) == {"1": "n1", "2": "n2"}


def test_two_chunks_fit_on_one_node_or_on_two() -> None:
    nodes = [a_node("n1", DOWN), a_node("n2", DOWN)]
    assert planned([pbs_job(1, "2:ppn=4")], nodes) == {"1": "n1,n2"}
    assert planned([pbs_job(1, "2:ncpus=4", apart=False)], nodes) == {"1": "n1"}
    assert planned([pbs_job(1, "2:ncpus=1", apart=False, whole_nodes=True)], nodes) == {"1": "n1,n2"}


def test_booting_nodes_count_as_available() -> None:
    opens = a_node("n1", closed=True, planned=True, reason="offpeak: wakes since 5")
    for first in (a_node("n1", PowerState.POWERING_ON), opens):
        assert planned([pbs_job(1, "1:ppn=8")], [first, a_node("n2", DOWN)]) == {"1": "n1"}


def test_jobs_ahead_in_the_queue_get_nodes_first() -> None:
    nodes = [a_node("n1", DOWN), a_node("n2", DOWN, features=("fast",))]
    jobs = [pbs_job(1, "1:ppn=8:fast"), pbs_job(2, "2:ppn=8", priority=5)]
    assert planned(jobs, nodes) == {"2": "n1,n2"}
    assert planned([pbs_job(1, "1:ppn=8:fast"), pbs_job(2, "n1:ppn=8")], nodes) == {"1": "n2", "2": "n1"}
    assert planned([pbs_job(1, "1:ppn=8:slow"), pbs_job(2, "3:ppn=8")], nodes) == {}


def test_job_that_no_node_can_serve_wakes_none() -> None:
    nodes = [a_node("n1", DOWN)]
    for fields in (
        {"state": JobState.HELD},
        {"begin_s": NOW_S + 1},
        {"partitions": ("other",)},
        {"reservation": "R1"},
        {"reason": "Not Running: User has reached server running job limit."},
    ):
        assert planned([pbs_job(1, "1:ppn=8", **fields)], nodes) == {}
    for node in (a_node("n1", DOWN, closed=True), a_node("n1", DOWN, failed=True), a_node("n1", DOWN, reserved=True)):
        assert planned([pbs_job(1, "1:ppn=8")], [node]) == {}


GPUS = {"gpus": (("", 4),), "cpus": 8, "memory_mib": 64_000}


def mixed_nodes(**of_gpu_nodes: Any) -> list[Node]:
    gpu_nodes = [a_node(name, **{"power": DOWN, **GPUS, **of_gpu_nodes}) for name in ("g1", "g2")]
    small = [a_node(name, DOWN, memory_mib=32_000) for name in ("n1", "n2")]
    return [*gpu_nodes, *small, a_node("n3", DOWN, cpus=16, memory_mib=256_000)]


@pytest.mark.parametrize(
    ("request_", "hosts"),
    [
        ("1:ncpus=4:ngpus=2", "g1"),
        ("2:ncpus=4", "n1,n2"),
        ("1:ncpus=4:mem=40gb", "n3"),
        ("1:ncpus=12", "n3"),
        ("3:ncpus=8", "n1,n2,n3"),
        ("4:ncpus=8", "n1,n2,n3,g1"),
        ("1:ncpus=1:ngpus=1+1:ncpus=8", "g1,n1"),
        ("1:ncpus=1:ngpus=5", ""),
        ("3:ncpus=1:ngpus=1", ""),
        # More than any node has: the server does not count memory.
        ("1:ncpus=1:mem=900gb", "n1"),
    ],
)
def test_a_job_wakes_the_smallest_nodes_that_can_run_it(request_: str, hosts: str) -> None:
    found = planned([pbs_job(1, request_)], mixed_nodes())
    assert sorted(found.get("1", "").split(",")) == sorted(hosts.split(","))


def test_awake_nodes_with_too_little_memory_or_too_few_gpus_left_do_not_help() -> None:
    nodes = mixed_nodes()
    up = [nodes[0]._replace(power=PowerState.ON, use=NodeUse.USED, cpus_used=2), *nodes[1:]]
    runs = pbs_job(9, "1:ncpus=2:ngpus=3:mem=30gb", state=JobState.RUNNING, hosts="g1", start_s=NOW_S, end_s=None)
    assert planned([runs, pbs_job(1, "1:ncpus=1:ngpus=1")], up) == {"9": "g1", "1": "g1"}
    assert planned([runs, pbs_job(1, "1:ncpus=1:ngpus=2")], up)["1"] == "g2"
    assert planned([runs, pbs_job(1, "1:ncpus=1:ngpus=1:mem=40gb")], up)["1"] == "g2"
    second = [pbs_job(number, "1:ncpus=1:ngpus=1") for number in (1, 2)]
    assert planned([runs, *second], up) == {"9": "g1", "1": "g1", "2": "g2"}


def test_tasks_beyond_the_limit_of_their_array_wake_no_node() -> None:
    nodes = [a_node(f"n{number}", DOWN) for number in range(6)]
    tasks = [pbs_job(number, "1:ncpus=8", array_id="7[]", task_limit=2) for number in range(5)]
    assert planned(tasks, nodes) == {"0": "n0", "1": "n1"}
    runs = pbs_job(8, "1:ncpus=8", state=JobState.RUNNING, hosts="n5", array_id="7[]", task_limit=2)
    assert list(planned([*tasks, runs], nodes)) == ["0", "8"]


ESTIMATED_S = NOW_S + 600
"""What OpenPBS reckons with for a node that sleeps, however soon the node could be up."""


def test_a_job_that_must_not_start_before_the_first_one_wakes_no_node() -> None:
    strict = "Not Running: Job would break strict sorted order"
    nodes = [a_node("n1", used=8), a_node("n2", DOWN)]
    first = pbs_job(1, "2:ppn=8")
    assert planned([first, pbs_job(2, "1:ppn=8")], nodes) == {"2": "n2"}
    assert planned([first, pbs_job(2, "1:ppn=8", reason=strict)], nodes) == {}
    # Its reason is older than the end of the job before it.
    assert planned([pbs_job(2, "1:ppn=8", reason=strict)], nodes) == {"2": "n2"}


def estimate_of(*jobs: PbsJob, nodes: list[Node]) -> tuple[int | None, str]:
    first = next(
        job for job in with_demand(jobs, nodes, NOW_S, patience_s=PATIENCE_S).jobs if job.state is JobState.PENDING
    )
    return first.start_s, first.hosts


def test_an_estimate_stays_where_waking_would_not_help() -> None:
    job = pbs_job(1, "1:ppn=8", start_s=ESTIMATED_S, hosts="n2")
    assert estimate_of(job, nodes=[a_node("n1", DOWN)]) == (ESTIMATED_S, "n2")
    for other in (DOWN, PowerState.ON):
        assert estimate_of(job, nodes=[a_node("n1", other), a_node("n2", used=8)]) == (ESTIMATED_S, "n2")


def test_an_estimate_of_more_than_ten_minutes_has_another_reason() -> None:
    nodes = [a_node("n2"), a_node("n3", DOWN)]
    job = pbs_job(1, "2:ncpus=8", start_s=NOW_S + 3600, hosts="n2,n3")
    assert estimate_of(job, nodes=nodes) == (NOW_S + 3600, "n2,n3")


def test_no_node_wakes_for_an_estimate_on_an_unavailable_node() -> None:
    job = pbs_job(1, "2:ncpus=8", start_s=ESTIMATED_S, hosts="n2,n3")
    asleep = a_node("n3", DOWN)
    for kept in (a_node("n2", DOWN, closed=True), a_node("n2", failed=True), a_node("n4")):
        assert estimate_of(job, nodes=[kept, asleep]) == (ESTIMATED_S, "n2,n3")


def test_the_nodes_of_an_estimate_are_woken_when_they_are_what_the_job_waits_for() -> None:
    job = pbs_job(1, "2:ncpus=8", start_s=ESTIMATED_S, hosts="n2,n3")
    nodes = [a_node("n1"), a_node("n2"), a_node("n3", DOWN)]
    assert estimate_of(job, nodes=nodes) == (NOW_S, "n2,n3")
    # Nobody else has them meanwhile.
    assert planned([job, pbs_job(2, "1:ncpus=8")], [a_node("n1", used=8), *nodes[1:]]) == {"1": "n2,n3"}
    # Nor are they sent to sleep again before the server has looked.
    for power in (PowerState.POWERING_ON, PowerState.ON):
        assert estimate_of(job, nodes=[*nodes[:2], a_node("n3", power)]) == (NOW_S, "n2,n3")


@pytest.mark.parametrize(
    ("end_s", "start_s"),
    [(NOW_S + 90, NOW_S + 90), (NOW_S - 5, NOW_S), (ESTIMATED_S + 9, ESTIMATED_S), (None, ESTIMATED_S)],
)
def test_nodes_become_free_at_the_limits_of_their_jobs(end_s: int | None, start_s: int) -> None:
    runs = pbs_job(2, "1:ncpus=8", state=JobState.RUNNING, start_s=NOW_S - 60, end_s=end_s, hosts="n2")
    shorter = pbs_job(3, "1:ncpus=8", state=JobState.RUNNING, start_s=NOW_S - 60, end_s=NOW_S - 9, hosts="n2")
    job = pbs_job(1, "2:ncpus=8", start_s=ESTIMATED_S, hosts="n2,n3")
    assert estimate_of(runs, shorter, job, nodes=[a_node("n2", used=8), a_node("n3", DOWN)]) == (start_s, "n2,n3")


def test_requests_of_both() -> None:
    assert chunks_of("2:ppn=4:fast+n004:ppn=2") == (Chunk(2, 4, features=FAST), Chunk(1, 2, host="n004"))
    assert chunks_of("3:ncpus=8:mem=4gb:mpiprocs=8:bigmem=True:kind=a100+1:host=n7") == (
        Chunk(3, 8, 4096, features=(frozenset({"bigmem", "a100"}),)),
        Chunk(1, 1, host="n7"),
    )
    assert chunks_of("ncpus=4:gpu=False") == (Chunk(1, 4),)
    assert chunks_of("") == ()


def hosts_of_two(nodes: list[Node], views: list[tuple[int, str]], comment: str = "") -> list[str]:
    """Return the hosts of job 1, then those of job 2, in views at these times, each with the comment of job 1."""
    chances: Mapping[str, StartChance] = {}
    found = []
    for at_s, reason in views:
        jobs = [pbs_job(1, "1:ppn=8", reason=reason or comment), pbs_job(2, "1:ppn=8")]
        demand = with_demand(jobs, nodes, NOW_S + at_s, patience_s=PATIENCE_S, chances=chances)
        chances = demand.chances
        found.append(" ".join(job.hosts or "-" for job in demand.jobs))
    return found


def test_a_job_that_does_not_start_is_passed_over_and_has_nodes_woken_ever_more_rarely() -> None:
    # Job 1 never starts: after its time job 2 gets its node, and no node wakes for job 1 until the pause is over.
    nodes = [a_node("n1"), a_node("n2", DOWN)]
    at_s = [0, PATIENCE_S - 1, PATIENCE_S, 3 * PATIENCE_S - 1, 3 * PATIENCE_S, 4 * PATIENCE_S, 7 * PATIENCE_S]
    assert hosts_of_two(nodes, [(each, "") for each in at_s]) == [
        "n1 n2",
        "n1 n2",
        "- n1",
        "- -",
        "n1 -",
        "- n1",
        "- -",
    ]


def test_a_job_that_waits_for_another_reason_gets_nodes_again() -> None:
    nodes = [a_node("n1"), a_node("n2", DOWN)]
    before, same, other = "Not Running: site hook 17", "Not Running: site hook 18", "Not enough free nodes"
    views = [(0, before), (PATIENCE_S, same), (PATIENCE_S + 1, other)]
    assert hosts_of_two(nodes, views) == ["n1 n2", "- n1", "n1 n2"]
    # Once only: the server's comment changes each time the nodes fall asleep or wake for it.
    views += [(2 * PATIENCE_S + 1, other), (2 * PATIENCE_S + 2, before), (2 * PATIENCE_S + 3, other)]
    assert hosts_of_two(nodes, views)[3:] == ["- n1", "- n1", "- n1"]


def test_the_time_of_a_job_begins_when_its_last_node_is_up() -> None:
    wide = [pbs_job(1, "2:ppn=8")]
    demand = with_demand(wide, [a_node("n1"), a_node("n2", PowerState.POWERING_ON)], NOW_S, patience_s=PATIENCE_S)
    for at_s, hosts in ((PATIENCE_S, "n1,n2"), (2 * PATIENCE_S, "")):
        nodes = [a_node("n1"), a_node("n2")]
        demand = with_demand(wide, nodes, NOW_S + at_s, patience_s=PATIENCE_S, chances=demand.chances)
        assert demand.jobs[0].hosts == hosts

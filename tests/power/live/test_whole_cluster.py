"""Waits that are told to brokers: by size and limit, of a cluster with jobs and without."""

from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.expected_waits import TIME_LIMITS_S, simulate_waits
from offpeak.services.agent.reports import count_idle_cores

NOW_S = 1_795_215_600


def node(name: str, use: NodeUse = NodeUse.FREE, *, used: int = 0, failed: bool = False, closed: bool = False) -> Node:
    flags = (closed, failed, True, False, False)
    return Node(name, "", use, PowerState.ON, *flags, "", "", None, ("batch",), (), 8, used, 1000, None, None)


def job(number: int, state: JobState, nodes: int, **given: object) -> Job:
    mine = ("", "", "job", "", ("batch",), "", "", "", 100 - number, 0)
    made = Job(str(number), state, "", "", *mine, nodes, 8 * nodes, True, 3600, NOW_S, None, NOW_S, None, "", True)
    return made._replace(**given)


def test_an_idle_cluster_waits_for_nothing_and_broken_nodes_do_not_count() -> None:
    nodes = (node("n1"), node("n2"), node("n3"), node("n4", failed=True), node("n5", closed=True))
    waits = simulate_waits(SchedulerView(NOW_S, (), nodes, ()), {}, shared=False).total
    assert waits.cores == (8, 16, 24)
    assert {value for row in waits.wait_s for value in row} == {0.0}
    assert [count_idle_cores(each, shared=False) for each in nodes] == [8, 8, 8, 0, 0]


def test_blocked_job_waits_and_backfilled_job_starts() -> None:
    nodes = (node("n1", NodeUse.USED, used=8), node("n2"))
    jobs = (job(1, JobState.RUNNING, 1), job(2, JobState.PENDING, 2))
    waits = simulate_waits(SchedulerView(NOW_S, jobs, nodes, ()), {}, shared=False).total
    short, long = TIME_LIMITS_S.index(3600), TIME_LIMITS_S.index(86_400)
    assert (waits.wait_s[0][short], waits.wait_s[0][long]) == (0.0, 7200.0)
    assert waits.wait_s[1][short] == 7200.0


def test_shared_nodes_are_counted_in_cores_and_nothing_is_known_without_nodes() -> None:
    nodes = (node("n1", NodeUse.USED, used=3), node("n2"))
    waits = simulate_waits(SchedulerView(NOW_S, (), nodes, ()), {}, shared=True).total
    assert waits.cores == (1, 2, 4, 8, 16)
    assert [count_idle_cores(each, shared=True) for each in nodes] == [5, 8]
    assert simulate_waits(SchedulerView(NOW_S, (), (), ()), {}, shared=True).total.cores == ()

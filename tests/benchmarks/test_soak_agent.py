"""What the witnesses of the soak of kills would find. The soak itself takes minutes: `make soak`."""

from benchmarks.local_slurm.cluster import JobTraceEntry
from benchmarks.local_slurm.node import PowerEvent
from benchmarks.soak_agent.queue import Waiting, not_the_sites
from benchmarks.soak_agent.witness import Run, of_jobs, of_ledger, of_limits, of_power
from offpeak.door.effect import AGENT, Effect, Outcome
from offpeak.door.journal import Intent, IntentResult
from offpeak.model.orders import NodeOrder

RUN = Run(begun_s=0.0, ended_s=100.0, per_hour=2, min_on=1)


def result(at_s: float, outcome: Outcome | None = None, order: str = "soft_off", node: str = "node1") -> IntentResult:
    return IntentResult(Intent(7, Effect(node, NodeOrder(order), AGENT, "idle"), at_s), outcome)


DONE, UNSURE = Outcome("done", "accepted"), Outcome("interrupted", "found on after a restart")


def event(what: str, jobs: tuple[str, ...] = (), node: str = "node1") -> PowerEvent:
    return PowerEvent(1.0, node, what, jobs)


def test_a_job_that_does_not_run_once_is_found() -> None:
    start, end = JobTraceEntry(1.0, "5", "start", "node1"), JobTraceEntry(2.0, "5", "end", "node1")
    assert list(of_jobs(["5"], [start, end])) == []
    assert list(of_jobs(["5"], [start])) == ["job 5 has started 1 times and ended 0 times"]
    assert list(of_jobs(["5"], [start, start, end, end])) == ["job 5 has started 2 times and ended 2 times"]


def test_a_restart_forgets_no_limit() -> None:
    for actions, broken in (
        ([result(1.0), result(2.0, order="on"), result(3.0)], 0),
        ([result(1.0), result(2.0), result(3.0)], 1),
        ([result(-4000.0), result(-5.0), result(3.0)], 0),
        ([result(-6.0), result(-5.0), result(3.0)], 1),
    ):
        assert len(list(of_limits(actions, [RUN]))) == broken


def test_power_that_is_missing_is_found() -> None:
    cases: list[tuple[list[PowerEvent], list[str]]] = [
        ([event("soft_off"), event("off")], []),
        ([event("soft_off", ("5",))], ["node1: soft_off while 5 ran there"]),
        ([event("off", ("5",))], ["node1: off while 5 ran there"]),
        ([event("soft_off"), event("soft_off", node="node2")], ["min_on: 0 nodes were left, 1 have to stay"]),
        ([event("soft_off"), event("up"), event("soft_off", node="node2")], []),
    ]
    for events, findings in cases:
        assert list(of_power(events, [RUN], ["node1", "node2"])) == findings


def test_the_ledger_has_what_bmcs_received() -> None:
    for outcome, received, broken in (
        (DONE, 1, 0),
        (DONE, 0, 1),
        (DONE, 2, 1),
        (UNSURE, 1, 0),
        (UNSURE, 0, 0),
        (None, 1, 1),
    ):
        assert len(list(of_ledger([result(1.0, outcome)], [event("soft_off")] * received))) == broken


def test_a_queue_that_is_not_the_sites_is_found() -> None:
    for job, wrong in (
        (Waiting(5, 90, 0, late=False), 0),
        (Waiting(5, 91, 0, late=False), 1),
        (Waiting(5, 90, 100, late=False), 1),
        (Waiting(5, 90, 0, late=True), 1),
    ):
        assert len(list(not_the_sites([job], {5: 90}))) == wrong

"""Requests of tasks, `qsub -L`, as Torque 6.1 tells them of a job."""

from pathlib import Path

import pytest
from pbs_standin import standin

from offpeak.model.orders import NodeChange
from offpeak.model.request import Chunk, Request
from offpeak.plugin.pbs.jobs import chunks_of, parse_tasks
from offpeak.plugin.pbs.torque import TorqueScheduler, jobs_of_xml
from offpeak.settings.agent import PbsSettings
from offpeak.sim_backend.pbs_standin.submission import req_information

pytestmark = pytest.mark.quick

PLACED = {
    "thread_usage_policy.0": "allowthreads",
    "hostlist.0": "n220:ppn=4",
    "task_usage.0.task.0": '{"task":{"cpu_list":"1,3,5,7","mem_list":"1","cores":0,"threads":4,"host":"n220"}}',
}


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("tasks=2:lprocs=4", Request((), chunks_of("2:ppn=4"), apart=False)),
        ("tasks=1", Request((), chunks_of("1:ppn=1"), apart=False)),
        ("tasks=2:lprocs=all", Request((), chunks_of("2:ppn=1"), apart=True, whole_nodes=True)),
        ("tasks=3:lprocs=8:place=node", Request((), chunks_of("3:ppn=8"), apart=True, whole_nodes=True)),
        ("tasks=2:lprocs=8:place=node=2", Request((), chunks_of("4:ppn=8"), apart=True, whole_nodes=True)),
        ("tasks=2:lprocs=4:place=socket=1:memory=10gb", Request((), (Chunk(2, 4, 10240),), apart=False)),
        ("tasks=5:lprocs=2:maxtpn=2:usecores", Request((), chunks_of("3:ppn=4"), apart=True)),
        ("tasks=2:lprocs=2:maxtpn=8", Request((), chunks_of("1:ppn=4"), apart=True)),
        ("tasks=2:lprocs=2:feature=fast&big", Request((), chunks_of("2:ppn=2:fast:big"), apart=False)),
        ("tasks=2:lprocs=2:feature=fast|big", Request((), chunks_of("2:ppn=2:fast"), apart=False)),
    ],
)
def test_task_request_is_parsed(option: str, expected: Request) -> None:
    information = req_information([option])
    assert parse_tasks(information) == expected
    assert parse_tasks({**information, **PLACED}) == expected


def test_several_requests_are_one_job() -> None:
    information = req_information(["tasks=1:lprocs=8", *["tasks=2:lprocs=1"] * 10])
    request = parse_tasks(dict(reversed(information.items())))
    assert request is not None
    # By their numbers: the eleventh is not the third.
    assert [chunk.cores for chunk in request.chunks] == [8, *[1] * 10]
    assert parse_tasks({}) is None
    assert parse_tasks(PLACED) is None


def test_a_request_by_nodes_precedes_the_one_that_the_server_derived() -> None:
    made = "<req_information><task_count.0>2</task_count.0><lprocs.0>4</lprocs.0></req_information>"
    xml = "<Data><Job><Job_Id>1.h</Job_Id><Resource_List><nodes>2:ppn=4:fast</nodes></Resource_List>{}</Job></Data>"
    with_made, without = (jobs_of_xml(xml.format(text).encode())[0] for text in (made, ""))
    assert with_made == without
    assert with_made.job.request == Request((), chunks_of("2:ppn=4:fast"), apart=True)


def test_nodes_are_woken_for_tasks_and_others_do_not_compete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standin("torque", tmp_path) as running:
        monkeypatch.setenv("PATH", running.path)
        scheduler = TorqueScheduler(PbsSettings(timeout_s=300, torque_order="priority"))
        for name in ("node1", "node2", "node3"):
            for change in (NodeChange.CLOSE, NodeChange.POWER_DOWN):
                assert scheduler.change_nodes([name], change, reason="offpeak: x") == {}

        def submit(option: str) -> str:
            return running.run("qsub", "-L", option, user="alice", stdin="sleep 100\n")

        packed, too_wide, whole = (submit(f"tasks={tasks}") for tasks in ("2:lprocs=4", "9:lprocs=8", "2:place=node"))
        jobs = {job.job_id: job for job in scheduler.view().jobs}
        assert [jobs[job].hosts for job in (packed, too_wide, whole)] == ["node1", "", "node2,node3"]
        assert [jobs[job].cpus for job in (packed, too_wide)] == [8, 72]
        assert [jobs[job].nodes for job in (packed, too_wide, whole)] == [1, 1, 2]
        assert [jobs[job].whole_nodes for job in (packed, whole)] == [False, True]
        assert len({jobs[job].request for job in (packed, too_wide, whole)}) == 3
        again = submit("tasks=2:lprocs=4")
        assert {job.job_id: job for job in scheduler.view().jobs}[again].request == jobs[packed].request

"""What Slurm of several versions answered: folders that are discovered, so that a new version is a new test."""

import json
import socket
from pathlib import Path

import pytest

from offpeak.model.cluster import Partition
from offpeak.model.orders import PowerState
from offpeak.plugin.contract.rules import ManagedSite, check_contract
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.slurm.commands import CannotAskSlurm
from offpeak.plugin.slurm.configuration import traits_of_text
from offpeak.plugin.slurm.jobs import SQUEUE_COLUMNS, jobs_of_json, jobs_of_text, parse_task_limits, separator
from offpeak.plugin.slurm.nodes import nodes_of_json, nodes_of_text, reservations_of_json, reservations_of_text

pytestmark = pytest.mark.quick

ANSWERS = Path(__file__).parents[4] / "shared" / "data" / "captures" / "slurm"
VERSIONS = sorted(folder.name for folder in ANSWERS.glob("[0-9]*.[0-9]*"))

# The columns that were recorded as text, in order; the reason is left out, as it is not the same at every instant.
RECORDED_TEXT = (
    "JobID,JobArrayID,UserName,Account,Partition,State,Reason,PriorityLong,NumNodes,NumCPUs,TimeLimit,SubmitTime,"
    "StartTime,EndTime,NodeList,Feature,Dependency,Reservation,QOS,Nice,Comment,tres-alloc,Name"
)
RECORDED = RECORDED_TEXT.split(",")
ALIKE = (
    "job_id state user account name comment partitions reservation qos priority offset nodes cpus limit_s submit_s"
    " plain array_id request_problem"
)
COMPACT = {"PD": "PENDING", "R": "RUNNING", "CF": "CONFIGURING"}


@pytest.fixture(params=VERSIONS)
def answers(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "data" / "captures" / "slurm" / str(request.param)


def answer(answers: Path, name: str) -> bytes:
    if not (answers / name).is_file():
        pytest.skip("not recorded from this release of Slurm")
    return (answers / name).read_bytes()


def as_we_ask(row: str) -> str:
    """Return a recorded row as squeue prints it for our columns; what was not recorded is empty."""
    first, rest = row.split("|", 20)[:20], row.split("|", 20)[20]
    columns = dict(zip(RECORDED, [*first, *rest.rsplit("|", 2)], strict=True))
    columns["State"] = COMPACT[columns["State"]]
    return separator("END").join(columns.get(column, "") for column in SQUEUE_COLUMNS)


def some(job: Job) -> dict[str, object]:
    assert job.request is not None
    return {name: getattr(job, name) for name in ALIKE.split()} | {"chunks": job.request.chunks}


def states(node: Node) -> set[str]:
    return set(node.native_state.split("+"))


def test_text_and_json_tell_the_same_of_jobs(answers: Path) -> None:
    rows = answer(answers, "squeue_O_pipe.txt").decode().splitlines()
    text = jobs_of_text(b"JOBIDEND\n" + "".join(f"{as_we_ask(row)}END\n" for row in rows).encode(), "END")
    from_json = {job.job_id: job for job in jobs_of_json(answer(answers, "squeue.json"), source="squeue")}
    assert len(text) > 10
    for job in text:
        assert some(job) == some(from_json[job.job_id])
        if job.state is JobState.RUNNING:
            assert (job.start_s, job.end_s, job.hosts) == from_json[job.job_id][20:23]


def test_text_and_json_tell_the_same_of_nodes(answers: Path) -> None:
    from_json = nodes_of_json(answer(answers, "scontrol_show_nodes.json"), source="scontrol")
    by_name = {node.name: node for node in from_json}
    text = nodes_of_text(answer(answers, "scontrol_show_node_o.txt"))
    assert len(text) == len(from_json) == 16
    # A job may have ended between the two.
    same = [node for node in text if states(node) == states(by_name[node.name])]
    assert len(same) > 12
    for node in same:
        assert node._replace(native_state="") == by_name[node.name]._replace(native_state="")


def test_the_state_of_each_node(answers: Path) -> None:
    nodes = {node.name: node for node in nodes_of_text(answer(answers, "scontrol_show_node_o.txt"))}
    assert [nodes[f"node{i}"].use for i in range(1, 9)] == [NodeUse.USED] * 8
    assert not any(node.use is NodeUse.UNKNOWN for node in nodes.values())
    assert (nodes["node10"].closed, nodes["node10"].closed_by_us) == (True, False)
    assert (nodes["node10"].reason, nodes["node10"].reason_by) == ("broken fan", "root")
    assert nodes["node11"].failed
    assert [nodes[f"node{i}"].power for i in (13, 14, 15, 16)] == [PowerState.OFF] * 4
    assert nodes["node16"].closed_by_us


@pytest.mark.parametrize(
    ("of", "power", "use", "failed"),
    [
        ("POWER_DOWN_asked", PowerState.OFF_REQUESTED, NodeUse.FREE, False),
        ("POWERING_DOWN", PowerState.POWERING_OFF, NodeUse.FREE, False),
        ("POWER_UP_asked", PowerState.ON_REQUESTED, NodeUse.FREE, False),
        ("POWERING_UP", PowerState.POWERING_ON, NodeUse.FREE, False),
        ("POWERING_UP_by_job", PowerState.POWERING_ON, NodeUse.USED, False),
        ("after_power_up", PowerState.ON, NodeUse.FREE, False),
        ("boot_failed", PowerState.OFF, NodeUse.FREE, True),
    ],
)
def test_nodes_that_change_their_power(of: str, power: PowerState, use: NodeUse, failed: bool, answers: Path) -> None:
    # Not one a line: a line that goes on is the same to the parser.
    (node,) = nodes_of_text(answer(answers, f"scontrol_show_node_{of}.txt"))
    assert (node.power, node.use, node.failed) == (power, use, failed)


@pytest.mark.parametrize("of", ["POWERING_DOWN", "POWERING_UP", "boot_failed"])
def test_recorded_json_equals_recorded_text(of: str, answers: Path) -> None:
    (node,) = nodes_of_json(answer(answers, f"scontrol_show_nodes_{of}.json"), source="scontrol")
    powers = {
        "POWERING_DOWN": PowerState.POWERING_OFF,
        "POWERING_UP": PowerState.POWERING_ON,
        "boot_failed": PowerState.OFF,
    }
    assert (node.power, node.failed) == (powers[of], of == "boot_failed")


def test_text_and_json_tell_the_same_of_reservations(answers: Path) -> None:
    shown = answer(answers, "scontrol_show_reservation.txt").decode()
    text = reservations_of_text(" ".join(shown.split()).encode())
    assert text == reservations_of_json(answer(answers, "scontrol_show_reservation.json"), source="scontrol")
    assert [(reservation.name, reservation.nodes, reservation.maintenance) for reservation in text] == [
        ("maint", ("node9",), True)
    ]


def test_each_data_parser_is_understood(answers: Path) -> None:
    plain = jobs_of_json(answer(answers, "squeue.json"), source="squeue")
    for file in answers.glob("squeue_v0.0.*.json"):
        from_json = {job.job_id: job for job in jobs_of_json(file.read_bytes(), source="squeue")}
        both = [job for job in plain if job.job_id in from_json and job.state is from_json[job.job_id].state]
        assert len(both) > 5
        for job in both:
            assert some(from_json[job.job_id]) | {"priority": 0} == some(job) | {"priority": 0}
    nodes = {node.name for node in nodes_of_json(answer(answers, "scontrol_show_nodes.json"), source="scontrol")}
    for file in answers.glob("scontrol_show_nodes_v0.0.*.json"):
        assert {node.name for node in nodes_of_json(file.read_bytes(), source="scontrol")} == nodes


def test_a_job_that_wakes_a_node_starts(answers: Path) -> None:
    (job,) = jobs_of_json(answer(answers, "squeue_job_wakes_node.json"), source="squeue")
    assert (job.state, job.native_state) == (JobState.STARTS, "CONFIGURING")


def test_slurmrestd_tells_the_same_as_squeue(answers: Path) -> None:
    jobs = {job.job_id: job for job in jobs_of_json(answer(answers, "rest_jobs.json"), source="rest")}
    shown = jobs_of_json(answer(answers, "squeue_states_all.json"), source="squeue")
    ended = [job for job in shown if job.state in (JobState.ENDED, JobState.HELD)]
    if any(jobs[job.job_id].submit_s != job.submit_s for job in ended):
        pytest.skip("slurmrestd was recorded on another day")
    for job in ended:
        assert jobs[job.job_id] == job


def test_an_answer_with_an_error_is_not_trusted(shared: Path) -> None:
    recorded = shared / "data" / "captures" / "slurm" / "23.02" / "squeue_without_slurmdbd.json"
    with pytest.raises(CannotAskSlurm, match="squeue: function 0x7fc337cc1ed6 returned NULL list"):
        jobs_of_json(recorded.read_bytes(), source="squeue")


def test_bytes_that_are_no_text_hide_no_job() -> None:
    """Slurm prints a name such as $'f\\xe4rbung' in JSON as it is."""
    text = b'{"jobs": [{"job_id": 1, "name": "f\xe4rbung"}, {"job_id": 2, "name": "b"}]}'
    found = jobs_of_json(text, source="squeue --json")
    assert [(job.job_id, job.name) for job in found] == [("1", "f\N{REPLACEMENT CHARACTER}rbung"), ("2", "b")]


def test_the_configuration(answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The programs of another host are not looked for.
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    traits = traits_of_text(answer(answers, "scontrol_show_config.txt"), answer(answers, "scontrol_show_partition.txt"))
    assert traits.version.startswith(answers.name)
    assert (traits.ranking, traits.power_saving, traits.boot_s, traits.shared_nodes) == ("offset", True, 20, True)
    assert check_contract(traits.contract, ManagedSite((), frozenset({"n1"}))) == ()


def test_jobs_of_22_05(shared: Path) -> None:
    recorded = shared / "data" / "captures" / "slurm" / "22.05"
    from_json = json.loads((recorded / "squeue_json_3jobs.json").read_text())["jobs"]
    jobs = jobs_of_json((recorded / "squeue_json_3jobs.json").read_bytes(), source="squeue")
    assert (jobs[0].job_id, jobs[0].state) == ("22", JobState.RUNNING)
    assert [job.submit_s for job in jobs] == [job["submit_time"] for job in from_json]
    assert jobs[0].whole_nodes
    nodes = nodes_of_json((recorded / "sinfo_mixed_power.json").read_bytes(), source="sinfo")
    shown = nodes_of_text((recorded / "scontrol_show_nodes_mixed_power.txt").read_bytes())
    assert (
        [node.power for node in nodes] == [node.power for node in shown] == [PowerState.ON] * 8 + [PowerState.OFF] * 8
    )


def test_an_array_is_counted_from_text_and_json(answers: Path) -> None:
    rows = answer(answers, "squeue_O_pipe.txt").decode().splitlines()
    text = jobs_of_text(b"JOBIDEND\n" + "".join(f"{as_we_ask(row)}END\n" for row in rows).encode(), "END")
    limits = parse_task_limits(b"JOBID|ARRAY_TASK_ID\n12|2-6%2\n11|3-9\n")
    text = tuple(job._replace(task_limit=limits.get(job.job_id, 0)) for job in text)
    for jobs in (text, jobs_of_json(answer(answers, "squeue.json"), source="squeue")):
        (array,) = (job for job in jobs if job.is_array and job.state is JobState.PENDING)
        assert (array.job_id, array.tasks, array.task_limit) == ("12", 5, 2)
        assert sorted(job.job_id for job in jobs if job.array_id == "12" and not job.is_array) == ["19"]


def test_partitions(answers: Path) -> None:
    config = answer(answers, "scontrol_show_config.txt")
    (batch, *_) = traits_of_text(config, answer(answers, "scontrol_show_partition.txt")).partitions
    assert batch == Partition("batch", shared=True, is_default=True)

"""What Torque of several versions answered: files that are discovered, so that a new version is a new test."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from offpeak.model.orders import PowerState
from offpeak.plugin.pbs.commands import CannotAskPbs
from offpeak.plugin.pbs.jobs import PbsJob
from offpeak.plugin.pbs.torque import jobs_of_xml, jobs_on, nodes_of_xml, status_of
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import Node, NodeUse

pytestmark = pytest.mark.quick

ANSWERS = Path(__file__).parents[4] / "shared" / "data" / "captures" / "torque"
JOBS = sorted(file.relative_to(ANSWERS) for file in ANSWERS.rglob("*qstat_x*.xml"))
NODES = sorted(file.relative_to(ANSWERS) for file in ANSWERS.rglob("*pbsnodes_x.xml"))
NOW_S = 1_795_214_200


@pytest.fixture
def answers(shared: Path) -> Path:
    return shared / "data" / "captures" / "torque"


def jobs(file: Path) -> dict[str, PbsJob]:
    return {pbs_job.job.job_id: pbs_job for pbs_job in jobs_of_xml(file.read_bytes())}


def nodes(file: Path) -> dict[str, Node]:
    found = nodes_of_xml(file.read_bytes(), queues=("batch", "express"), now_s=NOW_S, boot_s=900)
    return {node.name: node for node in found}


@pytest.mark.parametrize("name", JOBS, ids=str)
def test_no_job_and_no_field_is_lost(name: Path, answers: Path) -> None:
    text = (answers / name).read_bytes()
    found = jobs(answers / name)
    job_ids = re.findall(rb"<Job_Id>([^<]*)<", text)
    assert [job.encode() for job in found] == job_ids
    for each in found.values():
        job = each.job
        assert job.user in {"alice", "bob", "carol"}
        assert job.name
        assert job.partitions
        assert job.submit_s > 1_795_000_000
        assert job.state is not JobState.OTHER
        assert job.nodes >= 1
        assert job.cpus >= 1
        assert job.limit_s is not None
        assert bool(job.start_s) == (job.state in {JobState.RUNNING, JobState.ENDED} and "[]" not in job.job_id)
        assert bool(job.hosts) == bool(job.start_s)
        # A user who is no manager sees fewer fields, and only own jobs.
        assert each.rank > 0 or "alice" in name.name
    assert text.count(b"<Account_Name>") == sum(bool(each.job.account) for each in found.values())
    assert text.count(b"<Execution_Time>") == sum(each.job.begin_s is not None for each in found.values())
    assert text.count(b"<comp_time>") == sum(each.job.state is JobState.ENDED for each in found.values())


@pytest.mark.parametrize("name", NODES, ids=str)
def test_no_node_and_no_state_is_lost(name: Path, answers: Path) -> None:
    text = (answers / name).read_text()
    found = nodes(answers / name)
    assert list(found) == re.findall(r"<name>([^<]*)<", text)
    for node in found.values():
        assert node.use is not NodeUse.UNKNOWN
        assert (node.cpus, node.partitions) == (8, ("batch", "express"))
        assert node.features
        assert node.memory_mib > 24_000 or not node.responds
        assert node.closed == ("offline" in node.native_state)
        assert node.failed == ("down" in node.native_state)
        assert node.responds is not node.failed


@pytest.mark.parametrize(("file", "first"), [("A_qstat_xt.xml", 29), ("v4.2.10/qstat_xt.xml", 0)])
def test_recorded_torque_queue_with_mixed_jobs_is_parsed(file: str, first: int, answers: Path) -> None:
    found = {name: each.job for name, each in jobs(answers / file).items()}

    def job(number: int, tail: str = "") -> str:
        return f"{first + number}{tail}.head"

    parallel = found[job(2)]
    assert (parallel.state, parallel.nodes, parallel.cpus, parallel.limit_s) == (JobState.RUNNING, 2, 8, 3600)
    assert set(parallel.hosts.split(",")) == {"n002", "n003"}
    assert parallel.account == "proj_aero"
    task = found[job(3, "[2]")]
    assert (task.plain, task.hosts, task.cpus) == (False, "n002", 2)
    assert found[job(3, "[4]")].state is JobState.HELD
    # Others wait for the one, which itself hangs on none.
    assert found[job(5)].plain
    assert not found[job(6)].plain
    assert found[job(6)].reason == f"Dependency: afterok:{job(5)}"
    assert (found[job(7)].state, found[job(7)].reason) == (JobState.HELD, "JobHeld: u")
    waits = found[job(8)]
    assert (waits.state, waits.native_state) == (JobState.PENDING, "W")
    assert (waits.begin_s or 0) > waits.submit_s
    assert (found[job(9)].cpus, found[job(10)].cpus) == (6 if first else 1, 4 if first else 1)
    assert found[job(11)].priority == 100
    assert found[job(13)].qos == "high"


@pytest.mark.parametrize("name", [name for name in JOBS if name.name in ("A_qstat_xt.xml", "qstat_xt.xml")], ids=str)
def test_the_stock_scheduler_does_not_look_at_a_job_that_waits_for_its_time(name: Path, answers: Path) -> None:
    found = [pbs_job.job for pbs_job in jobs(answers / name).values()]
    # The scheduler leaves a comment at each job that it has considered.
    assert all(job.reason for job in found if job.native_state == "Q")
    assert [job.reason for job in found if job.native_state == "W"] == [""]


def test_a_control_character_of_one_user_does_not_hide_the_others(answers: Path) -> None:
    text = (answers / "H_weird_qstat_x.xml").read_bytes()
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring(text)
    assert [pbs_job.job.name for pbs_job in jobs_of_xml(text)] == ["w_env", "123", "1e5", 'a"b', "x<y&z"]


def test_our_notes_are_distinguished_from_others(answers: Path) -> None:
    offline = nodes(answers / "B_offline_pbsnodes_x.xml")
    assert (offline["n003"].closed_by_us, offline["n001"].closed_by_us) == (True, False)
    assert offline["n003"].reason == "offpeak: drained for power-off 22:00"
    assert offline["n001"].use is NodeUse.USED
    assert not nodes(answers / "v4.2.10" / "pbsnodes_x.xml")["n003"].closed_by_us


def test_torques_own_power_state_is_read_though_the_state_says_free(answers: Path) -> None:
    found = nodes(answers / "C_power_two_pbsnodes_x.xml")
    assert [found[name].power for name in ("n002", "n003", "n004")] == [PowerState.ON, PowerState.OFF, PowerState.OFF]
    assert found["n003"].native_state == "free"


def test_slots_of_both_notations() -> None:
    assert jobs_on("0-3/31.head,4,6/32[1].head") == {"31.head": 4, "32[1].head": 2}
    assert jobs_on("0/2.head, 1/2.head, 4/3[1].head") == {"2.head": 2, "3[1].head": 1}
    assert jobs_on("") == {}


def test_a_status_has_commas_and_spaces_inside() -> None:
    field = "opsys=linux,uname=Linux n1 #1 SMP, PREEMPT,sessions=1 2 3,gres=,physmem=24684092kb,varattr= ,rectime=17"
    status = status_of(field)
    assert (status["uname"], status["gres"], status["varattr"]) == ("Linux n1 #1 SMP, PREEMPT", "", " ")
    assert (status["physmem"], status["rectime"]) == ("24684092kb", "17")


def node(state: str, note: str, rectime: int = 0) -> Node:
    text = f"<name>n1</name><state>{state}</state><np>8</np><note>{note}</note><status>rectime={rectime},jobs=</status>"
    (found,) = nodes_of_xml(f"<Data><Node>{text}</Node></Data>".encode(), queues=(), now_s=1000, boot_s=300)
    return found


def test_our_marks() -> None:
    closed = node("offline", "offpeak: nobody needs it")
    assert (closed.closed_by_us, closed.power) == (True, PowerState.ON)
    asleep = node("down,offline", "offpeak: asleep since 400")
    assert (asleep.closed, asleep.failed, asleep.power) == (False, False, PowerState.OFF)
    # The server has not noticed yet that it is off.
    assert node("offline", "offpeak: asleep since 990", 985).power is PowerState.OFF
    wakes = node("down,offline", "offpeak: wakes since 900", 400)
    assert (wakes.closed, wakes.failed, wakes.power) == (False, False, PowerState.POWERING_ON)
    assert node("offline", "offpeak: wakes since 900", 899).power is PowerState.POWERING_ON
    registered = node("offline", "offpeak: wakes since 900 - ERROR: appended by the server", 960)
    assert (registered.closed_by_us, registered.power, registered.planned) == (True, PowerState.ON, True)
    late = node("down,offline", "offpeak: wakes since 600", 400)
    assert (late.closed, late.failed, late.power) == (False, True, PowerState.OFF)
    # A note that stayed behind at an open node says nothing.
    assert node("free", "offpeak: asleep since 400").power is PowerState.ON
    assert node("job-exclusive,new-word", "").use is NodeUse.UNKNOWN


def test_a_node_that_was_sent_down_by_pbsnodes_is_still_to_be_marked_as_asleep() -> None:
    def low(note: str, rectime: int) -> Node:
        text = f"<name>n1</name><state>offline</state><power_state>Shutdown</power_state><note>{note}</note>"
        text += f"<status>rectime={rectime}</status>"
        return nodes_of_xml(f"<Data><Node>{text}</Node></Data>".encode(), queues=(), now_s=1000, boot_s=300)[0]

    assert (low("offpeak: nobody needs it", 900).power, low("broken fan", 900).power) == (PowerState.ON, PowerState.OFF)
    assert low("offpeak: asleep since 950", 960).power is PowerState.OFF
    # What it reported on its way down is no sign that it is back.
    assert low("offpeak: wakes since 950", 960).power is PowerState.POWERING_ON


def test_text_that_is_no_xml_is_rejected() -> None:
    assert jobs_of_xml(b"") == ()
    with pytest.raises(CannotAskPbs, match="qstat -x: its answer is no XML"):
        jobs_of_xml(b"<Data><Job>")


def test_hints_of_owners_are_found_in_the_environment_and_only_there() -> None:
    def comment(variables: str) -> str:
        text = f"<Data><Job><Job_Id>1.h</Job_Id><Variable_List>{variables}</Variable_List></Job></Data>"
        return jobs_of_xml(text.encode())[0].job.comment

    assert comment("A=1,OFFPEAK=delay=12h,B=2") == "offpeak:delay=12h"
    assert (
        comment("OFFPEAK=delay=12h\\,deadline=2026-11-22T08:00")
        == "offpeak:delay=12h offpeak:deadline=2026-11-22T08:00"
    )
    assert comment("A=x\\,OFFPEAK=now,B=2") == ""
    assert comment("MY_OFFPEAK=now") == ""

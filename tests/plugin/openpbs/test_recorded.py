"""What a real OpenPBS answered: files that are discovered, so that a new version is a new test."""

import json
from pathlib import Path

import pytest

from offpeak.model.orders import PowerState
from offpeak.plugin.pbs.commands import CannotAskPbs, execution_queues, parse_attributes
from offpeak.plugin.pbs.openpbs import assigned_of_json, jobs_of_json, nodes_of_json
from offpeak.plugin.scheduler.job import Job, JobState, join_array_tasks
from offpeak.plugin.scheduler.node import Node, NodeUse

pytestmark = pytest.mark.quick

ANSWERS = Path(__file__).parents[4] / "shared" / "data" / "captures" / "openpbs"


def files_with(key: str) -> list[str]:
    return sorted(file.name for file in ANSWERS.glob("*.json") if f'\n\t"{key}":'.encode() in file.read_bytes())


@pytest.fixture
def answers(shared: Path) -> Path:
    return shared / "data" / "captures" / "openpbs"


def jobs(text: bytes) -> dict[str, Job]:
    return {pbs_job.job.job_id: pbs_job.job for pbs_job in jobs_of_json(text, lambda _: 0.0)}


def nodes(text: bytes, now_s: int = 1_795_214_200) -> dict[str, Node]:
    return {node.name: node for node in nodes_of_json(text, queues={"workq": ""}, now_s=now_s, boot_s=900)}


@pytest.mark.parametrize("name", files_with("Jobs"))
def test_no_job_and_no_field_is_lost(name: str, answers: Path) -> None:
    text = (answers / name).read_bytes()
    answer = json.loads(text.decode(errors="replace"))["Jobs"]
    found = jobs(text)
    whole = {"3[].head"} if "3[1].head" in answer and "3[].head" in answer else set()
    assert set(found) == answer.keys() - whole
    for job in found.values():
        assert job.user in {"alice", "bob", "carol"}
        assert job.name
        assert job.partitions
        assert job.submit_s > 1_795_000_000
        assert job.state is not JobState.OTHER
        assert job.nodes >= 1
        assert job.cpus >= 1
        assert bool(job.hosts) == ("exec_vnode" in answer[job.job_id] or "estimated" in answer[job.job_id])
        assert bool(job.start_s) == ("stime" in answer[job.job_id] or "estimated" in answer[job.job_id])
        assert bool(job.account) == ("Account_Name" in answer[job.job_id])
        assert bool(job.begin_s) == ("Execution_Time" in answer[job.job_id])
        assert (job.state is JobState.ENDED) <= (job.end_s is not None)


@pytest.mark.parametrize("name", [name for name in files_with("nodes") if "aSj" not in name])
def test_no_node_and_no_state_is_lost(name: str, answers: Path) -> None:
    text = (answers / name).read_bytes()
    answer = json.loads(text)["nodes"]
    found = nodes(text)
    assert found.keys() == answer.keys()
    for node in found.values():
        assert node.use is not NodeUse.UNKNOWN
        assert (node.cpus, node.memory_mib, node.partitions) == (8, 32_768, ("workq",))
        assert node.closed == bool({"offline", "sleep"} & set(node.native_state.split(",")))
        assert node.failed == ("down" in node.native_state)
        assert not node.closed_by_us


def test_recorded_openpbs_queue_with_mixed_jobs_is_parsed(answers: Path) -> None:
    found = jobs((answers / "A_qstat_xtf.json").read_bytes())
    assert (found["0.head"].state, (found["0.head"].end_s or 0) - (found["0.head"].start_s or 0)) == (JobState.ENDED, 3)
    suspended = found["2.head"]
    assert (suspended.state, suspended.hosts, suspended.account) == (JobState.SUSPENDED, "n001", "proj_aero")
    assert (found["3[2].head"].state, found["3[2].head"].plain) == (JobState.RUNNING, False)
    exclusive = found["5.head"]
    assert (exclusive.whole_nodes, exclusive.nodes, exclusive.cpus, exclusive.plain) == (True, 4, 32, True)
    assert not found["6.head"].plain
    assert (found["7.head"].state, found["7.head"].reason) == (JobState.HELD, "JobHeld: u")
    assert (found["8.head"].state, found["8.head"].begin_s) == (JobState.PENDING, 1_795_232_980)
    # The longest that it may take, where there is no walltime; None without either.
    assert (found["11.head"].limit_s, found["12.head"].limit_s) == (10_800, None)


def waiting_task(**other: object) -> dict[str, object]:
    return {"Job_Name": "a", "Job_Owner": "ann@head", "job_state": "Q", "queue": "workq", **other}


def test_a_task_that_waits_is_one_of_its_array() -> None:
    """OpenPBS 23.06 names the array and its limit in the records of the whole array and of tasks that have started."""
    begun = waiting_task(job_state="R", array_id="3[].head", array_index=1, exec_vnode="(n1:ncpus=4)")
    records = {
        "2.head": waiting_task(),
        "3[].head": waiting_task(job_state="B", array="True", max_run_subjobs=2),
        "3[1].head": begun,
        "3[2].head": waiting_task(),
        "3[3].head": waiting_task(job_state="X"),
        "3[4].head": waiting_task(),
        "4[].head": waiting_task(array="True"),
        "4[1].head": waiting_task(),
    }
    found = jobs(json.dumps({"Jobs": records}).encode())
    assert found.keys() == records.keys() - {"3[].head", "4[].head"}
    tasks = [(job.array_id, job.task_limit, job.plain) for job in found.values()]
    assert tasks == [("", 0, True), *[("3[].head", 2, False)] * 4, ("4[].head", 0, False)]
    queue = {job.job_id: job for job in join_array_tasks(found.values())}
    assert queue.keys() == {"2.head", "3[1].head", "3[].head", "3[3].head", "4[].head"}
    assert (queue["3[].head"].tasks, queue["3[].head"].task_limit, queue["4[].head"].tasks) == (2, 2, 1)


def host_of_vnodes(**other: object) -> bytes:
    available = {"ncpus": 16, "mem": "48gb", "ngpus": 2, "vnode": "<various>", "hbmem": "0kb", "host": "big"}
    record = {"state": "free", "resources_available": available, "resources_assigned": {}}
    own = {"state": "free", "queue": "gpuq", "resources_available": {"ncpus": 8, "vnode": "n1", "ngpus": 1}}
    return json.dumps({"nodes": {"big": record | other, "n1": own}}).encode()


def test_a_host_of_several_virtual_nodes_is_never_switched() -> None:
    """Its record sums its virtual nodes up, and `state += sleep` would close one of them."""
    found = nodes(host_of_vnodes())
    big = found["big"]
    assert (big.use, big.native_state, big.features) == (NodeUse.UNKNOWN, "free,several vnodes", ())
    assert (big.cpus, big.memory_mib, big.gpus, big.partitions) == (16, 49_152, (("", 2),), ("workq",))
    assert (found["n1"].use, found["n1"].partitions) == (NodeUse.FREE, ("gpuq",))
    # One of its virtual nodes has a queue of its own; which queues the others have is not shown.
    assert nodes(host_of_vnodes(queue="gpuq"))["big"].partitions == ("gpuq", "workq")
    assert "several vnodes" in str(assigned_of_json(host_of_vnodes(), ["big"])["big"])


def test_an_estimate_is_the_plan(answers: Path) -> None:
    job = jobs((answers / "D2_sleep_strict_qstat_f.json").read_bytes())["80.head"]
    assert (job.state, job.hosts, job.start_s) == (JobState.PENDING, "n001,n002,n003,n004", 1_795_214_029)


def test_bytes_numbers_and_absent_keys(answers: Path) -> None:
    text = (answers / "H_weird_qstat_f.json").read_bytes()
    with pytest.raises(UnicodeDecodeError):
        text.decode()
    assert [job.name for job in jobs(text).values()] == ["w_env", "123", "1e5"]
    assert jobs(b'{"timestamp": 1, "pbs_server": "head"}') == {}
    number = b'{"Jobs": {"1.h": {"Job_Name": 123, "Job_Owner": "7@h", "Resource_List": {"walltime": 90}}}}'
    job = jobs(number)["1.h"]
    assert (job.name, job.user, job.limit_s) == ("123", "7", 90)
    # A name or variable such as 1e400 is no number that JSON has.
    record = {"Job_Name": None, "Resource_List": {"walltime": None}, "Variable_List": {"OFFPEAK": None}}
    job = jobs(json.dumps({"Jobs": {"1.h": record}}).encode())["1.h"]
    assert (job.name, job.limit_s, job.comment) == ("", None, "")
    with pytest.raises(CannotAskPbs, match="no JSON"):
        jobs(b'{"Jobs": {')
    with pytest.raises(CannotAskPbs, match="not an object"):
        nodes(b"[]")


@pytest.mark.parametrize("variable", ["OFFPEAK", "X"])
def test_a_variable_that_is_json_hides_no_job(variable: str) -> None:
    """OpenPBS prints `qsub -v 'X=[[1]]'` as lists, up to a thousand within each other."""
    for depth in range(900, 1001):
        value = f'{"[" * depth}"]{{"{"]" * depth}'
        text = f'{{"Jobs": {{"1.h": {{"Variable_List": {{"{variable}": {value}}}}}, "2.h": {{"Job_Name": "b"}}}}}}'
        assert [job.name for job in jobs(text.encode()).values()] == ["", "b"]


def test_queues_and_server(answers: Path) -> None:
    queues = parse_attributes((answers / "A_qstat_Q.txt").read_bytes())
    assert execution_queues(queues) == {"workq": "", "short": ""}
    assert queues["short"]["Priority"] == "150"
    server = parse_attributes((answers / "G_server_formula.txt").read_bytes().replace(b"Server head", b"Server: head"))
    assert server["head"]["job_sort_formula"] == "offpeak_prio + 0*job_priority"


def node(state: str, mark: str, comment: str = "") -> Node:
    has = {"ncpus": 8, "offpeak_node": mark, "bigmem": "True", "kind": "fast,rack1"}
    answer = {"nodes": {"n1": {"state": state, "comment": comment, "resources_available": has}}}
    return nodes(json.dumps(answer).encode(), now_s=1000)["n1"]


def test_our_marks() -> None:
    closed = node("sleep", "closed.400", "offpeak: nobody needs it")
    assert (closed.closed_by_us, closed.reason, closed.power) == (True, "offpeak: nobody needs it", PowerState.ON)
    assert closed.features == ("bigmem", "fast", "rack1")
    # The server has overwritten the comment when the node went down.
    off = node("down,sleep", "closed.400", "node down: communication closed")
    assert (off.closed_by_us, off.failed) == (True, True)
    # Its daemon has registered again, and so the server has opened it, whether or not it still goes down.
    reopened = node("free", "closed.400", "offpeak: nobody needs it")
    assert (reopened.closed, reopened.is_marked) == (False, True)
    asleep = node("down,sleep", "asleep.400", "node down: communication closed")
    assert (asleep.closed, asleep.failed, asleep.power) == (False, False, PowerState.OFF)
    wakes = node("down,sleep", "wakes.900")
    assert (wakes.closed, wakes.failed, wakes.power) == (False, False, PowerState.POWERING_ON)
    late = node("down,sleep", "wakes.50")
    assert (late.failed, late.power) == (True, PowerState.OFF)
    # It has registered: the server has ended the state by itself, and what we wrote stays behind.
    back = node("free", "wakes.900", "offpeak: wakes")
    assert (back.closed, back.power, back.reason) == (False, PowerState.ON, "")
    # After a restart of the server it stays so until its daemon registers: it must be planned for jobs all the same.
    forgotten = node("state-unknown,down,sleep", "asleep.400")
    assert (forgotten.use, forgotten.power, forgotten.closed) == (NodeUse.FREE, PowerState.OFF, False)
    coming = node("state-unknown,down,sleep", "wakes.900")
    assert (coming.use, coming.power) == (NodeUse.FREE, PowerState.POWERING_ON)
    unclear = [node("state-unknown,down,sleep", mark).use for mark in ("", "closed.400")]
    assert [*unclear, node("state-unknown,sleep", "asleep.400").use] == [NodeUse.UNKNOWN] * 3
    theirs = node("down,offline,sleep", "asleep.400", "broken fan")
    assert (theirs.closed, theirs.closed_by_us, theirs.power) == (True, False, PowerState.ON)
    assert node("sleep", "", "set by hand").closed_by_us is False
    assert node("provisioning", "").use is NodeUse.UNKNOWN
    assert node("free,new-word", "").use is NodeUse.UNKNOWN


def test_hints_of_owners() -> None:
    answer = {"Jobs": {"1.h": {"Variable_List": {"OFFPEAK": "delay=12h;deadline=2026-11-22T08:00"}}}}
    assert jobs(json.dumps(answer).encode())["1.h"].comment == "offpeak:delay=12h offpeak:deadline=2026-11-22T08:00"


def test_a_queue_with_nodes_of_its_own_has_no_others() -> None:
    answer = {"nodes": {"n1": {"state": "free"}, "n2": {"state": "free", "queue": "debug"}}}
    found = nodes_of_json(
        json.dumps(answer).encode(), queues=dict.fromkeys(("workq", "debug", "long"), ""), now_s=1000, boot_s=900
    )
    assert [node.partitions for node in found] == [("workq", "long"), ("debug",)]


def test_a_node_of_a_partition_serves_the_queues_of_that_partition() -> None:
    answer = {"nodes": {"n1": {"state": "free"}, "n2": {"state": "free", "partition": "p2"}}}
    queues = {"workq": "", "q2": "p2"}
    found = nodes_of_json(json.dumps(answer).encode(), queues=queues, now_s=1000, boot_s=900)
    assert [node.partitions for node in found] == [("workq",), ("q2",)]
    shown = parse_attributes(b"Queue: q2\n    queue_type = Execution\n    partition = p2\n")
    assert execution_queues(shown) == {"q2": "p2"}

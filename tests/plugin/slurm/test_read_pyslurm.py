"""pyslurm, which cannot be built for Debian's Slurm: a module of the same objects stands in for it."""

import re
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.pyslurm_child import JOB, NODE
from offpeak.plugin.slurm.scheduler import SlurmScheduler, TextReader, read_pyslurm, tres_of_text
from offpeak.settings.agent import SlurmSettings

STAND_IN = r"""
class TrackableResources: pass
class Told:
    def __init__(self, **fields): vars(self).update(fields)
    def __getattribute__(self, name):
        # Cython decodes the bytes of C when they are read.
        found = object.__getattribute__(self, name)
        return found.decode() if isinstance(found, bytes) else found
    def to_dict(self): raise TypeError("unsupported operand type(s) for *: 'int' and 'NoneType'")
ABSENT = dict.fromkeys((
    "array_id", "heterogeneous_id", "account", "comment", "reservation", "qos", "required_nodes", "excluded_nodes",
    "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "memory_per_node", "memory_per_cpu",
    "array_tasks_waiting", "array_tasks_parallel", "licenses",
    "start_time", "end_time", "allocated_nodes", "scheduled_nodes", "dependencies"))
WAITS = ABSENT | dict(
    state="PENDING", state_reason="Priority", user_name="root", name="wrap", partition="batch", constraints=[],
    min_cpus_per_node=1, priority=1, nice=0, num_nodes=1, cpus=1, ntasks=1, time_limit=1440, submit_time=1795395483,
    eligible_time=1795395483, resource_sharing="OK")
SUSPENDED = WAITS | dict(state="SUSPENDED", state_reason="None", priority=0, start_time=1795395483,
    end_time=1795481883, allocated_nodes="node1")
JOBS = {
    2: SUSPENDED,
    3: WAITS | dict(num_nodes=2, cpus=4, min_cpus_per_node=2, tres_per_task=TrackableResources()),
    5: WAITS | dict(resource_sharing="NO", time_limit=10),
    7: WAITS | dict(array_id=7, array_tasks_waiting="1-3,7", array_tasks_parallel=2, state_reason="None",
        eligible_time=None),
    8: WAITS | dict(state_reason="JobHeldUser", comment="offpeak:delay=2h|x", excluded_nodes="node1", priority=0,
        memory_per_cpu=10, nice=50, num_nodes=2, cpus=2, eligible_time=None),
    9: WAITS | dict(heterogeneous_id=9),
    12: WAITS | dict(name=b"f\xe4rbung", partition="batch,long", nice=-100, comment="flex",
        constraints=["gpu", "fast"]),
    13: WAITS | dict(dependencies={"afterok": [53]}),
}
class Jobs:
    @staticmethod
    def load(): return {number: Told(id=number, **job) for number, job in JOBS.items()}
class Nodes:
    @staticmethod
    def load():
        return {"node1": Told(name="node1", state="MIXED", allocated_cpus=1, total_cpus=4, real_memory=1,
            boot_time=1795391757, last_busy_time=1795395460, reason=None, reason_user=None, reason_time=None,
            partitions=["batch"], available_features=[], comment=None,
            configured_gres={}),
          "n1": Told(name="n1", state="IDLE+POWER_UP+POWERED_DOWN", allocated_cpus=0, total_cpus=8, real_memory=1000,
            boot_time=1795391757, last_busy_time=1795215172, reason=None, reason_user="root", reason_time=None,
            partitions=["batch"], available_features=["gpu"], comment=None,
            configured_gres={"gpu:a100": 2, "nic": {"count": 1}})}
"""
"""What pyslurm 25.11.2 says of jobs and nodes of a Slurm 25.11.8, recorded; jobs 12 and 13 and node n1 are made up.

Job 2 was suspended in the second of its start, 3 asked for -c 2 --gpus-per-task=1, 5 and 8 for GPUs of their nodes."""

WANTS = b"""\
JOBID|TRES_PER_JOB|TRES_PER_NODE|TRES_PER_SOCKET|TRES_PER_TASK
2|N/A|N/A|N/A|N/A
3|N/A|gres/gpu:1|N/A|cpu=2,gres/gpu=1
5|N/A|gres/gpu:2|N/A|N/A
7|N/A|N/A|N/A|N/A
7|N/A|N/A|N/A|N/A
8|N/A|gres/gpu:1|N/A|N/A
9|N/A|N/A|N/A|N/A
"""
"""What squeue says of the same jobs."""


@pytest.fixture
def installed(basic: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture) -> Path:
    """A folder of Python's path with pyslurm 25.11.2, on a cluster that says it is 25.11."""
    assert basic
    about = tmp_path / "pyslurm-25.11.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pyslurm\nVersion: 25.11.2\n")
    (tmp_path / "pyslurm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    mocker.patch("offpeak.plugin.slurm.scheduler.slurm_version", return_value=(25, 11))
    wants = tres_of_text(WANTS)
    mocker.patch("offpeak.plugin.slurm.scheduler.tres_of_text", return_value=wants)
    return tmp_path / "pyslurm.py"


@pytest.mark.usefixtures("installed")
def test_jobs_and_nodes_are_read() -> None:
    view = SlurmScheduler(SlurmSettings(read="pyslurm")).view()
    jobs = {job.job_id: job for job in view.jobs}
    job, held = jobs["12"], jobs["8"]
    assert (job.state, job.priority, job.offset, job.limit_s) == (JobState.PENDING, 1, 100, 86_400)
    assert (job.partitions, job.comment, job.whole_nodes, job.plain) == (("batch", "long"), "flex", False, True)
    assert job.name == "f\N{REPLACEMENT CHARACTER}rbung"
    assert job.request is not None
    assert job.request.chunks[0].features == (frozenset({"gpu", "fast"}),)
    assert (held.state, held.offset, held.comment) == (JobState.HELD, -50, "offpeak:delay=2h|x")
    assert (jobs["5"].whole_nodes, jobs["5"].limit_s) == (True, 600)
    assert [jobs[job].plain for job in ("3", "7", "9", "13")] == [True, True, False, False]
    nodes = {node.name: node for node in view.nodes}
    node = nodes["n1"]
    assert (node.power, node.cpus, node.idle_since_s) == (PowerState.ON_REQUESTED, 8, 1_795_215_172)
    assert (node.partitions, node.features, node.gpus) == (("batch",), ("gpu", "gres/nic"), (("a100", 2),))
    assert (jobs["7"].array_id, jobs["7"].tasks, jobs["7"].task_limit) == ("7", 4, 2)
    assert nodes["node1"].cpus_used == 1


@pytest.mark.usefixtures("installed")
def test_a_job_that_was_suspended_as_it_started_is_read() -> None:
    (job,) = (job for job in read_pyslurm(300).jobs if job.job_id == "2")
    assert (job.state, job.hosts) == (JobState.SUSPENDED, "node1")


@pytest.mark.usefixtures("installed")
def test_jobs_that_ask_for_gpus_are_not_alike() -> None:
    gpus = {job.job_id: job.request.gpus for job in read_pyslurm(300).jobs if job.request}
    # Job 3 names its GPU twice: for its nodes, and for its tasks.
    assert (gpus["2"], gpus["5"], gpus["8"]) == (0, 2, 2)
    assert gpus["3"] >= 2


def test_a_controller_that_refuses_is_not_one_that_is_silent(installed: Path) -> None:
    why = "Unable to contact slurm controller (connect failure)"
    installed.write_text(f"class RPCError(Exception): pass\nraise RPCError({why!r})\n")
    with pytest.raises(SlurmIsSilent, match=r"^pyslurm: .*Unable to contact slurm controller"):
        read_pyslurm(300)


def test_a_configuration_that_is_read_again_and_again_is_reported(installed: Path) -> None:
    message = (
        "error: s_p_parse_file: cannot stat file /none.conf: No such file or directory, retrying in 1sec up to 60sec"
    )
    installed.write_text(f"import sys, time\nprint({message!r}, file=sys.stderr, flush=True)\ntime.sleep(3600)\n")
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: .*cannot stat file /none.conf: No such file") as caught:
        read_pyslurm(2)
    assert not isinstance(caught.value, SlurmIsSilent)


@pytest.mark.skipif(find_spec("pyslurm") is None, reason="needs pyslurm, and a Slurm of its version")
def test_pyslurm_and_the_text_of_the_same_slurm_agree(basic: SlurmCluster) -> None:
    wants = ((), ("-c2",), ("--exclusive",), ("--array=1-3",), ("--nice=50", "--comment=flex"), ("-N2", "-t10"))
    for options in wants:
        basic.run("sbatch", "--parsable", "--output=/dev/null", "--hold", *options, "--wrap=sleep 60")
    by_pyslurm, by_text = read_pyslurm(30), TextReader(30).read()
    basic.run("scancel", "--state=PENDING", "--me")
    assert {job.job_id: job for job in by_pyslurm.jobs} == {job.job_id: job for job in by_text.jobs}


def test_an_import_that_fails_is_one_line(installed: Path) -> None:
    installed.write_text("raise ImportError('requires Slurm 25.11, found 22.5')\n")
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: ImportError: requires Slurm 25.11, found 22.5$"):
        read_pyslurm(300)


def test_an_import_that_hangs_is_ended(installed: Path) -> None:
    installed.write_text("import time\ntime.sleep(3600)\n")
    with pytest.raises(SlurmIsSilent, match=r"^pyslurm: no answer within 0.5 s$"):
        read_pyslurm(0.5)


@pytest.mark.usefixtures("installed")
def test_another_version_is_not_used(mocker: MockerFixture) -> None:
    mocker.patch("offpeak.plugin.slurm.scheduler.slurm_version", return_value=(22, 5))
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: 25.11.2 is not made for Slurm 22.05$"):
        read_pyslurm(300)


@pytest.mark.usefixtures("basic")
def test_missing_pyslurm_is_reported_in_one_line() -> None:
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: is not installed$") as caught:
        read_pyslurm(300)
    assert caught.value.hint.startswith("pyslurm for Slurm 22.05 is not on the package index: ")


def test_the_hint_installs_the_version_of_slurm(mocker: MockerFixture) -> None:
    mocker.patch("offpeak.plugin.slurm.scheduler.slurm_version", return_value=(25, 11))
    mocker.patch("offpeak.plugin.slurm.scheduler.version", side_effect=PackageNotFoundError)
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: is not installed$") as caught:
        read_pyslurm(300)
    assert "env SLURM_INCLUDE_DIR=/usr/include SLURM_LIB_DIR=/usr/lib " in caught.value.hint
    assert " -m pip install 'pyslurm==25.11.*', or write " in caught.value.hint


def test_the_names_are_those_that_pyslurm_has(shared: Path) -> None:
    recorded = (shared / "data" / "captures" / "slurm" / "25.11" / "pyslurm_demo.out").read_text()
    for line, names in (("to_dict keys", JOB), ("node keys", NODE)):
        listed = re.search(rf"^{line}: \[(.*)\] \[", recorded, re.MULTILINE)
        assert listed
        assert set(names.values()) <= set(re.findall(r"'(\w+)'", listed[1]))

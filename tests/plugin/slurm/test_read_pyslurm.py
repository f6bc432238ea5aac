"""pyslurm, which cannot be built for Debian's Slurm: a module of the same objects stands in for it."""

import re
import time
from pathlib import Path

import pytest
from pytest_mock import MockerFixture
from slurm_cluster import Cluster

from offpeak.slurm_settings import SlurmSettings
from plugin.scheduler.job import JobState
from plugin.scheduler.node import NodePower
from plugin.slurm.ask import CannotAskSlurm, SlurmIsSilent
from plugin.slurm.pyslurm_child import JOB, NODE
from plugin.slurm.read_pyslurm import read_pyslurm
from plugin.slurm.scheduler import SlurmScheduler

STAND_IN = """\
class Told:
    def __init__(self, **told): self.told = told
    def to_dict(self): return self.told
class Jobs:
    @staticmethod
    def load():
        plain = dict(state="PENDING", user_name="ann", account=None, partition="batch,long", time_limit=10, cpus=4,
            num_nodes=2, submit_time=1795215172, eligible_time=1795215172, nice=-100, resource_sharing="NO",
            dependencies={"all": {}, "satisfy": None}, qos=None, name="a", comment="flex", constraints=["gpu", "fast"])
        hangs = plain | dict(dependencies={"afterok": [53]}, priority=0, state_reason="JobHeldAdmin")
        return {53: Told(id=53, priority=200000, state_reason="None", **plain), 54: Told(id=54, array_id=9, **hangs)}
class Nodes:
    @staticmethod
    def load():
        return {"n1": Told(name="n1", state="IDLE+POWER_UP+POWERED_DOWN", total_cpus=8, partitions=["batch"],
            available_features=["gpu"], reason=None, real_memory=1000, allocated_cpus=0, last_busy_time=1795215172)}
"""


@pytest.fixture
def installed(basic: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture) -> Path:
    """A folder of Python's path with pyslurm 25.11.2, on a cluster that says it is 25.11."""
    assert basic
    about = tmp_path / "pyslurm-25.11.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pyslurm\nVersion: 25.11.2\n")
    (tmp_path / "pyslurm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    mocker.patch("plugin.slurm.read_pyslurm.slurm_version", return_value=(25, 11))
    return tmp_path / "pyslurm.py"


@pytest.mark.usefixtures("installed")
def test_jobs_and_nodes_are_told() -> None:
    view = SlurmScheduler(SlurmSettings(read="pyslurm")).view()
    job, held = view.jobs
    assert (job.job_id, job.state, job.priority, job.offset, job.limit_s) == ("53", JobState.PENDING, 200_000, 100, 600)
    assert (job.partitions, job.comment, job.whole_nodes, job.plain) == (("batch", "long"), "flex", True, True)
    assert "gpu,fast" in job.needs
    assert (held.state, held.plain) == (JobState.HELD, False)
    (node,) = view.nodes
    assert (node.name, node.power, node.cpus, node.idle_since_s) == ("n1", NodePower.ASKED_UP, 8, 1_795_215_172)
    assert (node.partitions, node.features) == (("batch",), ("gpu",))


def test_an_import_that_fails_is_one_line(installed: Path) -> None:
    installed.write_text("raise ImportError('requires Slurm 25.11, found 22.5')\n")
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: ImportError: requires Slurm 25.11, found 22.5$"):
        read_pyslurm(20)


def test_an_import_that_hangs_is_ended(installed: Path) -> None:
    installed.write_text("import time\ntime.sleep(60)\n")
    began = time.monotonic()
    with pytest.raises(SlurmIsSilent, match=r"^pyslurm: no answer within 0.5 s$"):
        read_pyslurm(0.5)
    assert time.monotonic() - began < 10


@pytest.mark.usefixtures("installed")
def test_another_version_is_not_used(mocker: MockerFixture) -> None:
    mocker.patch("plugin.slurm.read_pyslurm.slurm_version", return_value=(22, 5))
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: 25.11.2 is not made for Slurm 22.05$"):
        read_pyslurm(20)


@pytest.mark.usefixtures("basic")
def test_without_it_one_line_says_so() -> None:
    with pytest.raises(CannotAskSlurm, match=r"^pyslurm: is not installed$") as caught:
        read_pyslurm(20)
    assert caught.value.hint.startswith("pip install 'pyslurm==22.5.*'")


def test_the_names_are_those_that_pyslurm_has(shared: Path) -> None:
    recorded = (shared / "data" / "captures" / "slurm" / "25.11" / "pyslurm_demo.out").read_text()
    for line, names in (("to_dict keys", JOB), ("node keys", NODE)):
        told = re.search(rf"^{line}: \[(.*)\] \[", recorded, re.MULTILINE)
        assert told
        assert set(names.values()) <= set(re.findall(r"'(\w+)'", told[1]))

"""One stage after the other: a real slurmctld, the scheduler in memory, and the stand-ins of both PBS servers."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from open_folder import open_folder
from pbs_standin import standin
from scheduler_stages import PbsStage, SimulatedStage, SlurmStage, Stage, ended
from slurm_fixtures import sleeping_slurm

from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.pbs.openpbs import OpenPbsScheduler
from offpeak.plugin.pbs.torque import TorqueScheduler
from offpeak.plugin.scheduler.port import Ranking
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import PbsSettings, SlurmSettings
from offpeak.sim_backend.scheduler.cluster import SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

PBS = PbsSettings(timeout_s=300, torque_order="priority")


KINDS = ("slurm", "simulated", "torque", "openpbs")


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A scheduler of three nodes without jobs."""
    with ExitStack() as end:
        if request.param == "slurm":
            made: Stage = slurm(request.getfixturevalue("basic_slurm"), monkeypatch)
        else:
            made = other(request.param, monkeypatch, end)
        yield made
        ended(made)


@pytest.fixture(params=KINDS)
def sleepy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The same, of its own: its nodes may be left as they are."""
    with ExitStack() as end:
        if request.param == "slurm":
            yield slurm(end.enter_context(sleeping_slurm("priority/basic", nodes=1)), monkeypatch)
        else:
            yield other(request.param, monkeypatch, end)


def slurm(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmStage:
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    return SlurmStage(cluster, SlurmScheduler(SlurmSettings(timeout_s=300)))


def other(kind: str, monkeypatch: pytest.MonkeyPatch, end: ExitStack) -> Stage:
    if kind == "simulated":
        nodes = {f"node{number}": SimNode(f"node{number}", 8) for number in (1, 2, 3)}
        simulated = SimulatedScheduler(SimulatedCluster(nodes, wakes=True), clock=time.time, ranking=Ranking.VALUE)
        return SimulatedStage(simulated)
    running = end.enter_context(standin(kind, end.enter_context(open_folder())))
    monkeypatch.setenv("PATH", running.path)
    return PbsStage(running, TorqueScheduler(PBS) if kind == "torque" else OpenPbsScheduler(PBS))

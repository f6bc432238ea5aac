"""The scheduler, the ledger or the meters fail: the agent reports it and continues."""

import re
import sqlite3
import time
from collections.abc import Iterator

import pytest
from node_story import FLAT, for_a_while, orders, wait_for_line, wait_for_sleep
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, write_site
from benchmarks.local_slurm.meters import metered_racks
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS

pytestmark = [
    pytest.mark.usefixtures("nobody_suffers"),
    # Torque has the scenes in which power is taken from nodes.
    pytest.mark.parametrize("kind", ["slurm", OPENPBS], indirect=True, scope="module"),
]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    # A slurmctld that is killed while nodes go down forgets this, until they have been missing for so long.
    return start_stage(PoweredPlan(nodes=4, slurmd_timeout_s=10))


@pytest.fixture(scope="module")
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    with metered_racks(cluster) as racks:
        changes = {**FLAT, "slurm": {"timeout": "3s"}, "hardware": {"timeout": "1s"}}
        made = RunningAgent(
            cluster, ("agent", "--config", str(write_site(cluster, changes, racks=racks))), zygote.start
        )
        made.start()
        wait_for_line(made, "started")
        # Until its meters have answered once.
        time.sleep(3)
    # From now on no PDU answers.
    yield made
    made.stop()


def test_the_scheduler_is_killed_and_stopped(cluster: PoweredStage, running: RunningAgent) -> None:
    wait_for_line(running, "meters: rack1")
    cluster.kill9_server()
    wait_for_line(running, "WARNING scheduler:")
    cluster.start_server()
    wait_for_line(running, "scheduler: well again")
    cluster.stop_server()
    cluster.start_server()
    wait_for_sleep(cluster, *cluster.nodes)
    # First that it is silent, then perhaps why.
    assert 1 <= count_problems(running, "meters: rack1 (snmp): rack1:") <= 2
    assert count_problems(running, "WARNING scheduler:") <= 3


def test_nodes_are_woken_without_a_ledger(cluster: PoweredStage, running: RunningAgent) -> None:
    ledger = cluster.folder / "ledger.sqlite"
    jobs: list[str] = []
    with sqlite3.connect(ledger, timeout=300) as lock:
        lock.execute("begin exclusive")
        is_woken(cluster, "node1", jobs)
        wait_for_line(running, "database is locked")
        lock.rollback()
    lock.close()
    wait_for_line(running, "INFO ledger: well again")
    for file in cluster.folder.glob("ledger.sqlite*"):
        file.unlink()
    is_woken(cluster, "node2", jobs)
    wait_for_line(running, "ledger.sqlite: is gone")
    cluster.jobs.cancel(jobs)
    wait_until_free(cluster, "node1", "node2")
    # Nothing is switched off that cannot be recorded.
    for_a_while()
    assert [orders(cluster, node)[-1] for node in ("node1", "node2")] == ["on", "on"]
    # Each loop that needs the ledger meanwhile says so once.
    sources = [line.split()[3] for line in running.log.read_text().splitlines() if "ledger.sqlite: is gone" in line]
    assert len(set(sources)) == len(sources)
    assert running.runs


def is_woken(cluster: PoweredStage, node: str, jobs: list[str]) -> None:
    """See to it that a job wakes the node, and keep the job with the others."""
    jobs += cluster.jobs.submit(on=node, seconds=60)
    cluster.wait(lambda: cluster.admin.scheduler_state(node) is SchedulerState.BUSY, what=f"{node} to be woken")


def wait_until_free(cluster: PoweredStage, *nodes: str) -> None:
    """Return once no job is there."""
    cluster.wait(lambda: not any(map(cluster.admin.has_jobs, nodes)), what="the jobs to end")


def count_problems(running: RunningAgent, text: str) -> int:
    """Return how many lines of the agent's log have that, without those that repeat a problem later."""
    lines = running.log.read_text().splitlines()
    return sum(text in line and re.search(r"\(\d+ times in [\d,]+ s\)$", line) is None for line in lines)

"""How far the agent may go: by partition, by mode, around maintenance, and after its settings are read again."""

from collections.abc import Iterator
from typing import Any

import pytest
from node_story import FLAT, orders, wait_for_line, wait_for_sleep
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS

HOT, COOL = "hot", "cool"

pytestmark = [
    pytest.mark.usefixtures("nobody_suffers"),
    # Torque has the scenes in which power is taken from nodes.
    pytest.mark.parametrize("kind", ["slurm", OPENPBS], indirect=True, scope="module"),
]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=6, debug="node[5-6]"))


def site(cluster: PoweredStage, **agent: Any) -> str:
    changes = {**FLAT, "power": {"classes": ["hot=400W", "cool=150W"]}, "scheduling": {"window": 100}}
    return str(write_site(cluster, {"agent": agent, **changes}))


@pytest.fixture(scope="module")
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    made = RunningAgent(cluster, ("agent", "--config", site(cluster, mode="advise")), zygote.start)
    made.start()
    wait_for_line(made, "started in mode advise")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def jobs(cluster: PoweredStage) -> Iterator[list[str]]:
    """A hot and a cool job that wait for all nodes of their partition, behind one that has three of them."""
    (blocker,) = cluster.jobs.submit(on="node[1-3]", limit_min=30, nodes=3, seconds=300)
    # OpenPBS gives the nodes of the queue debug to that queue alone.
    nodes = 4 if cluster.kind == OPENPBS else 6
    waiting = [*cluster.jobs.submit(name=HOT, nodes=nodes), *cluster.jobs.submit(name=COOL, nodes=nodes)]
    yield waiting
    cluster.jobs.cancel([blocker, *waiting])


def reread(cluster: PoweredStage, running: RunningAgent, line: str, **agent: Any) -> None:
    """Have the agent read other settings, and wait for its log line."""
    before = running.log.read_text().count(line)
    site(cluster, **agent)
    running.reread()
    cluster.wait(lambda: running.log.read_text().count(line) > before, what=f"the line {line!r}")


def test_advise_and_maintenance(cluster: PoweredStage, running: RunningAgent, jobs: list[str]) -> None:
    """In mode advise owners are notified, and nothing else changes; nodes in maintenance stay as they are."""
    hot, cool = jobs
    cluster.admin.maintain("node6")
    cluster.wait(lambda: "would be moved back" in cluster.jobs.note_to_owner(hot), what="the owner to be told")
    cluster.wait(
        lambda: f"before {hot}" in cluster.jobs.note_to_owner(cool), what="the other one to be told", seconds=5
    )
    cluster.wait(lambda: cluster.admin.in_maintenance("node6"), what="the maintenance")
    assert cluster.jobs.order() == [hot, cool]
    assert all(orders(cluster, node) == [] for node in cluster.nodes)
    assert running.runs


def test_modes_of_partitions_hold(cluster: PoweredStage, running: RunningAgent, jobs: list[str]) -> None:
    hot, cool = jobs
    reread(cluster, running, "mode active", partition_modes=["debug=shadow"])
    cluster.wait(lambda: cluster.jobs.order() == [cool, hot], what="the frugal one to be first")
    wait_for_sleep(cluster, "node4")
    assert [orders(cluster, node) for node in ("node4", "node5", "node6")] == [["soft_off"], [], []]


def test_settings_are_read_again(cluster: PoweredStage, running: RunningAgent, jobs: list[str]) -> None:
    """Wrong settings are reported and change nothing; mode shadow restores queue and nodes."""
    hot, cool = jobs
    reread(cluster, running, "the old ones stay", capacity="perpetuum")
    reread(cluster, running, "mode active")
    wait_for_sleep(cluster, "node5")
    assert (cluster.jobs.order(), orders(cluster, "node6")) == ([cool, hot], [])
    reread(cluster, running, "mode shadow", mode="shadow")
    cluster.wait(lambda: cluster.jobs.order() == [hot, cool], what="the site's own order")
    assert not any(cluster.admin.is_shut(node) for node in cluster.nodes)


def test_a_node_that_slept_when_the_mode_closed_is_woken(cluster: PoweredStage, running: RunningAgent) -> None:
    """A job wakes it; under schedulers that give no job a sleeping node, the watchdog does, as the agent reports that
    it does not.
    """
    assert orders(cluster, "node5") == ["soft_off"]
    job = cluster.jobs.submit(on="node5", seconds=60)

    def is_there_for_jobs() -> bool:
        cluster.without_agent()
        return cluster.admin.scheduler_state("node5") in (SchedulerState.BUSY, SchedulerState.UP)

    cluster.wait(is_there_for_jobs, what="node5 to be woken")
    assert (orders(cluster, "node5")[-1], orders(cluster, "node6")) == ("on", [])
    assert running.runs
    cluster.jobs.cancel(job)

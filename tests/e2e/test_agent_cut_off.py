"""A cancelled round has ordered a node to sleep: the node stays closed to jobs while its scheduler counts it as up."""

import shutil
import time
from collections.abc import Iterator

import pytest
from node_story import FLAT, orders, wait_for_line
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PATIENCE_S
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.orders import NodeState
from offpeak.plugin.scheduler.node import SchedulerState

ALL = ("node1", "node2", "node3")
WHILE_S = 3.0
"""Longer than any of these schedulers needs to start a job."""

SLOW = """\
#!/bin/sh
# The scheduler's program. Calls take half a second each, one after the other, so that an order is given between two of
# them; and hang once a node was ordered to sleep, while there is a file.
exec 9>"{folder}/turn"
flock 9
sleep 0.5
if [ -e "{folder}/slow" ] && grep -qs soft_off "{folder}"/bmcs/*/orders; then
    flock -u 9
    exec 9>&-
    touch "{folder}/hangs"
    while [ -e "{folder}/hangs" ]; do sleep 0.5; done
fi
exec 9>&-
exec "{program}" "$@"
"""

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=len(ALL), notice_s=300.0))


@pytest.fixture
def running(cluster: PoweredStage, zygote: Zygote) -> Iterator[RunningAgent]:
    """An agent in a round that has ordered nodes to sleep, and that hangs at the next question to the scheduler."""
    slow = {"timeout": "2min"}
    changes = {"slurm": slow, "pbs": {**cluster.settings.get("pbs", {}), **slow}, **FLAT}
    made = RunningAgent(cluster, ("agent", "--config", str(write_site(cluster, changes))), zygote.start)
    made.environment["PATH"] = slowed(cluster, "scontrol" if cluster.kind == "slurm" else "pbsnodes")
    (cluster.folder / "slow").touch()
    made.start()
    cluster.wait((cluster.folder / "hangs").exists, what="an order to sleep, and a question that hangs")
    yield made
    made.kill9()


def slowed(cluster: PoweredStage, program: str) -> str:
    """Return a PATH in which that program is slow."""
    usual = cluster.environment["PATH"]
    found = shutil.which(program, path=usual)
    assert found is not None
    file = cluster.folder / "slowed" / program
    file.parent.mkdir(exist_ok=True)
    file.write_text(SLOW.format(folder=cluster.folder, program=found))
    file.chmod(0o755)
    return f"{file.parent}:{usual}"


def ordered_to_go(cluster: PoweredStage) -> list[str]:
    """Return the nodes whose BMCs got an order to switch them off."""
    return [node for node in ALL if "soft_off" in orders(cluster, node)]


def test_no_job_starts_on_a_node_that_was_just_ordered_to_sleep(cluster: PoweredStage, running: RunningAgent) -> None:
    assert running.process is not None
    running.process.terminate()
    (cluster.folder / "slow").unlink()
    wait_for_line(running, "a round under way is cut off")
    # The program hangs still: the end does not wait for it.
    running.process.wait(PATIENCE_S)
    assert (cluster.folder / "hangs").exists()
    asleep = ordered_to_go(cluster)
    # Nodes that fall asleep together share their questions: often all are ordered before one hangs.
    awake = [node for node in ALL if node not in asleep]
    # To the scheduler they are up still.
    assert {cluster.nodes[node].state for node in asleep} == {NodeState.OFF}
    assert {cluster.admin.scheduler_state(node) for node in asleep} == {SchedulerState.DRAINED}
    cluster.wait(
        lambda: {cluster.admin.scheduler_state(node) for node in awake} <= {SchedulerState.UP},
        what="the other nodes to be open",
    )
    jobs = cluster.jobs.submit(count=len(ALL) + 1, seconds=60)
    cluster.wait(lambda: len(cluster.jobs.started()) == len(awake), what="jobs on the other nodes")
    time.sleep(WHILE_S)
    assert len(cluster.jobs.started()) == len(awake)
    # It reports to the scheduler that they are off, and keeps them closed until then.
    run_offpeak(cluster, "agent", "--restore")
    time.sleep(WHILE_S)
    assert cluster.jobs.lost() == []
    cluster.jobs.cancel(jobs)

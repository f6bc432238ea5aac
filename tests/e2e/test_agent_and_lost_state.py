"""slurmctld, or the whole head node, begins again: nodes that sleep are known as such, and are woken for jobs."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from needed_programs import need
from node_story import FLAT, for_a_while, is_up, offpeak, orders, sleeping, taken, wait_for_line, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import Process, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from benchmarks.local_slurm.processes import OFFPEAK, start_server, wait_until
from offpeak.model.orders import NodeState

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]
ALL = ("node1", "node2", "node3", "node4")
SAVED_S = 6.0
"""slurmctld saves its state every 5 s."""
WITHOUT_SLURM_S = 6.0


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    need(["unshare"], packages="util-linux")
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=4.0))


def completes(cluster: PoweredCluster, job: str) -> None:
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what=f"job {job}")


def test_after_slurmctld_c_nodes_that_sleep_are_woken_for_jobs(cluster: PoweredCluster, zygote: Zygote) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        (busy,) = cluster.jobs.submit(on="node4", seconds=300)
        wait_for_sleep(cluster, "node1", "node2", "node3")
        cluster.wait(lambda: busy in cluster.jobs.started(), what="a job that is forgotten")
        cluster.stop_server()
        begin_s = time.time()
        cluster.start_server("-c")
        assert {cluster.state(node) for node in ALL} == {"UNKNOWN"}
        # Slurm ends the job that it has forgotten; then its node may sleep.
        (one,) = cluster.jobs.submit(on="node1", seconds=1)
        completes(cluster, one)
        assert orders(cluster, "node1", begin_s) == ["on"]
        # The two others are known as nodes that sleep, and nobody has switched them.
        wait_for_sleep(cluster, "node2", "node3")
        assert orders(cluster, "node2", begin_s) == orders(cluster, "node3", begin_s) == []


def test_a_node_that_slurmctld_has_forgotten_to_be_up_boots_again(cluster: PoweredCluster, zygote: Zygote) -> None:
    """slurmctld counts a node as resumed only when it has booted since it was asked for."""
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        wait_for_sleep(cluster, "node1")
        # A slurmctld that stops saves all, while it runs it leaves a node that is powered down unsaved for minutes.
        cluster.stop_server()
        state = cluster.folder / "state" / "node_state"
        asleep = state.read_bytes()
        cluster.start_server()
        (job,) = cluster.jobs.submit(on="node1", seconds=1)
        completes(cluster, job)
        cluster.wait(lambda: cluster.state("node1") == "IDLE", what="an idle node")
        # The agent must have seen that, too; for 30 s the node stays awake.
        begin_s = for_a_while()
        cluster.kill9_server()
        for file in (state, state.with_suffix(".old")):
            file.write_bytes(asleep)
        cluster.start_server()
        # A job that Slurm starts there first keeps its power on, and waits for ResumeTimeout.
        cluster.wait(lambda: orders(cluster, "node1", begin_s) == ["soft_off"], what="the node to go off")
        (job,) = cluster.jobs.submit(on="node1", seconds=1)
        completes(cluster, job)
        assert orders(cluster, "node1", begin_s) == ["soft_off", "on"]


def test_a_node_that_goes_off_while_slurmctld_is_away_is_woken_for_a_job(
    cluster: PoweredCluster, zygote: Zygote
) -> None:
    """slurmctld, which begins anew with a node that is drained and silent, waits for it until SlurmdTimeout."""
    node = cluster.nodes["node1"]
    node.shutdown_s = 10.0
    begin_s = time.time()
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        cluster.wait(lambda: "soft_off" in orders(cluster, "node1", begin_s), what="a node that goes down")
        cluster.stop_server()
        cluster.wait(lambda: node.state is NodeState.OFF, what="a node that is off")
        node.shutdown_s = cluster.plan.shutdown_s
        cluster.start_server()
        (job,) = cluster.jobs.submit(on="node1", seconds=1)
        cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job to run", seconds=120.0)


ALONE = "the next node that sleeps goes through a whole cycle alone: "


def break_power_saving(cluster: PoweredCluster, *, broken: bool) -> None:
    """Restart slurmctld with a ResumeProgram that it cannot run, so that it powers no node, or with one that it can."""
    log, complaint = cluster.folder / "slurmctld.log", "power_save module disabled"
    before = log.read_text().count(complaint)
    cluster.stop_server()
    (cluster.folder / "Resume").chmod(0o644 if broken else 0o755)
    cluster.start_server()
    if broken:
        wait_until(lambda: log.read_text().count(complaint) > before, what=complaint, log=log)
        # As on a second controller, whose files `offpeak check` does not see. slurmctld does not look again.
        (cluster.folder / "Resume").chmod(0o755)


def test_where_power_saving_breaks_while_nodes_sleep_one_more_is_tried_and_all_come_back(
    cluster: PoweredCluster, zygote: Zygote
) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start) as running:
        (busy,) = cluster.jobs.submit("--nodes=2", on="node[3-4]", seconds=300)
        wait_for_sleep(cluster, "node1", "node2")
        cluster.wait(lambda: busy in cluster.jobs.started(), what="a job on a node")
        begin_s, already = time.time(), running.log.read_text().count(ALONE)
        break_power_saving(cluster, broken=True)
        cluster.wait(lambda: running.log.read_text().count(ALONE) > already, what="the agent to notice the restart")
        cluster.jobs.cancel([busy])
        # Before: four nodes were off that Slurm cannot wake, and nothing was said for three minutes.
        wait_for_line(running, "3 nodes are off that the scheduler cannot wake: ")
        cluster.wait(lambda: all(is_up(cluster, node) for node in ALL), what="all nodes to come back")
        (tried,) = set(taken(cluster, *ALL, since_s=begin_s))
        assert orders(cluster, tried, begin_s) == ["soft_off", "on"]
        # Slurm 22.05 says "specified", 25.11 "transition".
        problem = rf"it refuses power_down: Invalid node state \w+ \({tried}\); no node is put to sleep for now"
        assert re.search(problem, offpeak(cluster, "status"))
        assert re.search(problem, " ".join(run_offpeak(cluster, "check").stdout.split()))
        break_power_saving(cluster, broken=False)
        wait_for_sleep(cluster, *ALL)
        # The one that sleeps first, which depends on the order in which they came back.
        assert re.search(r"node\d went through a whole cycle", running.log.read_text())


def rebooted(arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start `offpeak` on a machine that has just booted: its monotonic clock begins again."""
    command = ("unshare", "--time", "--fork", "--kill-child=TERM", f"--monotonic=-{int(time.monotonic()) - 20}")
    return start_server((*command, *OFFPEAK, *arguments), log, environment)


@pytest.mark.parametrize(
    ("way", "woken", "sleeper"),
    [("reboot", "node2", "node3"), pytest.param("power cut", "node3", "node1", marks=pytest.mark.nightly)],
)
def test_the_head_node_begins_again_in_the_middle_of_a_wake(
    cluster: PoweredCluster, zygote: Zygote, way: str, woken: str, sleeper: str
) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start) as running:
        (busy,) = cluster.jobs.submit(on="node4", seconds=60)
        wait_for_sleep(cluster, woken, sleeper)
        cluster.wait(lambda: busy in cluster.jobs.started(), what="a job on a node")
        for node in cluster.nodes.values():
            node.boot_s = 2 * SAVED_S
        (wakes,) = cluster.jobs.submit(on=woken, seconds=1)
        cluster.wait(lambda: cluster.nodes[woken].state is NodeState.BOOTING, what="a wake under way")
        if way == "reboot":
            running.stop()
            cluster.stop_server()
        else:
            time.sleep(SAVED_S)
            running.kill9()
            cluster.kill9_server()
        begin_s = time.time()
        (cluster.folder / "agent.sock").unlink(missing_ok=True)
        for node in cluster.nodes.values():
            node.boot_s = cluster.plan.boot_s
        running.log.rename(running.log.with_suffix(".before"))
        running.start_process = rebooted
        running.start()
        wait_for_line(running, "WARNING scheduler: ")
        time.sleep(WITHOUT_SLURM_S)
        assert taken(cluster, *ALL, since_s=begin_s) == []
        cluster.start_server()
        wait_for_line(running, "INFO scheduler: well again")
        completes(cluster, wakes)
        # The one that slept was neither woken nor switched off again.
        assert sleeper in sleeping(cluster)
        assert orders(cluster, sleeper, begin_s) == []

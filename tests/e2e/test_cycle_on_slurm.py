"""`offpeak check --cycle` on real Slurm: at a new site no node sleeps before one was off and a job has woken it."""

from subprocess import CompletedProcess
from threading import Thread

import pytest
from node_story import FLAT, for_a_while, is_up, offpeak, orders, wait_for_line, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]
ALL = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), boot_s=4.0))


def begin_cycle(cluster: PoweredCluster, node: str) -> tuple[Thread, list[CompletedProcess[str]]]:
    """Start the command beside the test; its result is in the list once the thread has ended."""
    results: list[CompletedProcess[str]] = []
    command = Thread(target=lambda: results.append(run_offpeak(cluster, "check", "--cycle", node)))
    command.start()
    return command, results


def stop_at(running: RunningAgent, line: str) -> None:
    """End the agent by SIGTERM once it has written that line, and start it again a while later."""
    wait_for_line(running, line)
    running.stop()
    for_a_while(3.0)
    running.start()


def test_a_new_site_proves_a_cycle_although_the_agent_is_ended_twice_in_it(
    cluster: PoweredCluster, zygote: Zygote
) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start, proven=False) as running:
        (busy,) = cluster.jobs.submit(on="node1", seconds=30)
        cluster.wait(lambda: busy in cluster.jobs.started(), what="a job on a node")
        for_a_while()
        assert all(orders(cluster, node) == [] for node in ALL)
        told = "no node is put to sleep before one has gone through a whole cycle"
        assert told in offpeak(cluster, "status")
        assert told in " ".join(run_offpeak(cluster, "check").stdout.split())
        refused = run_offpeak(cluster, "check", "--cycle", "node1")
        assert (refused.returncode, "node1: a job runs there" in refused.stderr) == (2, True)
        command, results = begin_cycle(cluster, "node2")
        stop_at(running, "whole cycle, closed to jobs; next: off")
        stop_at(running, "request for node2: resume")
        command.join()
        assert results[0].returncode == 0, results[0].stdout + results[0].stderr
        assert "node2: woken by the scheduler after " in results[0].stdout
        assert orders(cluster, "node2")[:2] == ["soft_off", "on"]
        assert "node2 went through a whole cycle on " in " ".join(run_offpeak(cluster, "check").stdout.split())
        wait_for_sleep(cluster, *ALL)
        assert cluster.jobs.states()[busy] == "COMPLETED"
        assert "COMPLETED" in {state for job, state in cluster.jobs.states().items() if job != busy}
        asleep = run_offpeak(cluster, "check", "--cycle", "node3")
        assert "node3: it is off" in asleep.stderr
        assert not is_up(cluster, "node3")

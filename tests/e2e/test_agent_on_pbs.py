"""The agent on Torque and OpenPBS: behaviour in addition to that under every scheduler, which the other files test."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from node_story import FLAT, came_up_s, dear_until, for_a_while, is_up, orders, wait_for_line, wait_for_sleep
from powered_pbs import PoweredPbs, powered_pbs
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, agent, write_site
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS, TORQUE, Pbs
from offpeak.sim_backend.pbs_standin.server import USER_VARIABLE

ALL = ("node1", "node2", "node3")
BOOT_S = 5.0
RESERVED_AFTER_S = 60
"""A reservation's begin after all nodes sleep: later than the lead of a wake."""
PUT_OFF_S = 20
"""By then it has been put off, and the lead of a wake has not begun: the price falls at the next full minute."""

pytestmark = [pytest.mark.usefixtures("nobody_suffers")]


@pytest.fixture(scope="module", params=[TORQUE, OPENPBS])
def cluster(request: pytest.FixtureRequest, bmc_commands: Path) -> Iterator[PoweredPbs]:
    with powered_pbs(request.param, PoweredPlan(nodes=len(ALL), boot_s=BOOT_S), bmc_commands) as made:
        for node in made.nodes.values():
            # Shorter than in the agent's settings, so that a busy machine is not late.
            node.boot_s = 0.5
        yield made


def test_a_job_starts_on_nodes_that_a_restarted_server_has_opened(cluster: PoweredPbs, zygote: Zygote) -> None:
    if cluster.server.pbs.kind == TORQUE:
        pytest.skip("Torque's server keeps a node offline")
    for node in ALL:
        closed = f"resources_available.offpeak_node = closed.{int(time.time())}, state += sleep"
        cluster.server.run("qmgr", "-c", f"set node {node} {closed}")
    cluster.stop_server()
    cluster.start_server()
    (job,) = cluster.jobs.submit(nodes=3)
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")


def test_agent_that_sees_only_its_own_jobs_changes_nothing(cluster: PoweredPbs, zygote: Zygote) -> None:
    server = cluster.server
    server.run("qmgr", "-c", "set server query_other_jobs = False")
    server.run("qmgr", "-c", "set server managers -= root@*")
    (job,) = cluster.jobs.submit(nodes=2, seconds=600)
    cluster.wait(lambda: job in cluster.jobs.started(), what="the job of somebody else")
    settings = str(write_site(cluster, FLAT))
    running = RunningAgent(cluster, ("agent", "--config", settings), zygote.start)
    running.environment[USER_VARIABLE] = "ann"
    running.start()
    try:
        wait_for_line(running, "WARNING scheduler: qstat: root is not a manager")
        for_a_while()
        assert running.runs
        assert [orders(cluster, node) for node in ALL] == [[], [], []]
        assert not any(map(cluster.admin.is_shut, ALL))
        # With the right, it puts the free nodes to sleep, and no others.
        server.run("qmgr", "-c", "set server managers += root@*")
        server.run("qmgr", "-c", "set server managers += ann@*")
        wait_for_sleep(cluster, "node3")
        assert [orders(cluster, node) for node in ALL] == [[], [], ["soft_off"]]
    finally:
        running.stop()
        cluster.jobs.cancel([job])


def test_killed_before_the_server_was_informed_and_without_a_server(cluster: PoweredPbs, zygote: Zygote) -> None:
    with agent(cluster, write_site(cluster, {"agent": {"queue": "off"}, **FLAT}), by=zygote.start) as running:
        wait_for_sleep(cluster, "node3")
        cluster.wait(lambda: "off" in {cluster.nodes[node].state for node in ALL[:2]}, what="one to be off")
        # In between: the agent may not have reported to the server yet.
        running.kill9()
        running.start()
        wait_for_sleep(cluster, *ALL)
        cluster.stop_server()
        for_a_while(3)
        assert {node.state for node in cluster.nodes.values()} == {NodeState.OFF}
        cluster.start_server()
        (one,) = cluster.jobs.submit(seconds=2)
        cluster.wait(lambda: one in cluster.jobs.started(), what="a node to be woken for a job")
        # None that it did not need.
        assert [node.state for node in cluster.nodes.values()].count(NodeState.OFF) == 2
        (wide,) = cluster.jobs.submit(nodes=3)
        cluster.wait(lambda: wide in cluster.jobs.started(), what="all to be woken for a wide one")


def test_woken_nodes_stay_for_their_jobs_while_an_admin_has_stopped_the_scheduling(
    cluster: PoweredPbs, zygote: Zygote
) -> None:
    server = cluster.server
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        wait_for_sleep(cluster, *ALL)
        asleep_s = time.time()
        with cluster.admin.nothing_starts():
            jobs = cluster.jobs.submit(count=2)
            cluster.wait(lambda: sum(is_up(cluster, node) for node in ALL) == len(jobs), what="a node for each job")
            # Several times the time after which an idle node goes to sleep.
            for_a_while(10)
            assert sorted(orders(cluster, node, asleep_s) for node in ALL) == [[], ["on"], ["on"]]
            assert server.do(lambda pbs: pbs.attributes["scheduling"]) == "False"
        cluster.wait(lambda: set(jobs) <= set(cluster.jobs.started()), what="the jobs to start")
        cluster.jobs.cancel(jobs)


def test_the_node_of_a_job_put_off_is_up_by_its_hour(cluster: PoweredPbs, zygote: Zygote) -> None:
    changes: dict[str, Mapping[str, Any]] = {"agent": {"longest_delay": "1h"}}
    with agent(cluster, write_site(cluster, {**changes, **FLAT}), by=zygote.start) as running:
        wait_for_sleep(cluster, *ALL)
        asleep_s = time.time()
        edge_s = int(asleep_s + PUT_OFF_S + 59) // 60 * 60
        write_site(cluster, {**changes, "prices": {"tariff": dear_until(edge_s)}})
        running.reread()
        wait_for_line(running, "settings are read again")
        with cluster.admin.nothing_starts():
            (job,) = cluster.jobs.submit(user_hint="delay=20min", limit_min=2)
            cluster.wait(lambda: cluster.jobs.begin_s(job) == edge_s, what="the job to be put off")
        assert not any(orders(cluster, node, asleep_s) for node in ALL)
        cluster.wait(lambda: job in cluster.jobs.started(), what="the job to start")
    start = next(each for each in cluster.jobs.trace() if each.job == job)
    assert came_up_s(cluster, start.nodes, asleep_s, start.at_s) < edge_s <= start.at_s, cluster.describe_state()
    assert [cluster.nodes[node].state for node in ALL].count(NodeState.OFF) == 2, cluster.describe_state()


def test_nodes_that_the_server_counts_on_are_up_when_the_others_are_free(cluster: PoweredPbs, zygote: Zygote) -> None:
    if cluster.server.pbs.kind == TORQUE:
        pytest.skip("Torque estimates no start")
    # From now on the server estimates the first start, ten minutes from each of its looks while a node of it sleeps.
    cluster.server.run("qmgr", "-c", "set pbshook PBS_power enabled = True")
    with agent(cluster, write_site(cluster, {"agent": {"queue": "off"}, **FLAT}), by=zygote.start):
        wait_for_sleep(cluster, *ALL)
        (narrow,) = cluster.jobs.submit(on="node1", limit_min=1, seconds=60)
        cluster.wait(lambda: narrow in cluster.jobs.started(), what="a node to be woken for a job")
        (wide,) = cluster.jobs.submit(nodes=3)
        submitted_s = for_a_while()
        assert not any(orders(cluster, node, submitted_s) for node in ("node2", "node3")), cluster.describe_state()
        cluster.wait(lambda: wide in cluster.jobs.started(), what="the wide one to start")
    times = {(each.job, each.what): each.at_s for each in cluster.jobs.trace()}
    for node in ("node2", "node3"):
        assert came_up_s(cluster, node, submitted_s, times[wide, "start"]) < times[narrow, "end"], (
            cluster.describe_state()
        )


def test_a_node_sleeps_until_shortly_before_its_reservation(cluster: PoweredPbs, zygote: Zygote) -> None:
    if cluster.server.pbs.kind == TORQUE:
        pytest.skip("Torque's server has no reservations")
    tomorrow = time.strftime("%Y%m%d%H%M", time.gmtime(time.time() + DAY_S))
    where = ("-l", "select=1:ncpus=1:host=node2")
    reserved = cluster.server.run("pbs_rsub", "-R", tomorrow, "-D", "60", *where).split()[0]
    with agent(cluster, write_site(cluster, {"agent": {"queue": "off"}, **FLAT}), by=zygote.start):
        wait_for_sleep(cluster, *ALL)
        (wide,) = cluster.jobs.submit(nodes=3, limit_min=1, seconds=1)
        cluster.wait(lambda: wide in cluster.jobs.started(), what="all to be woken for a job that ends before")
        wait_for_sleep(cluster, *ALL)
        asleep_s, begin_s = time.time(), int(time.time()) + RESERVED_AFTER_S

        def begin_soon(pbs: Pbs) -> None:
            pbs.reservations[reserved] = replace(pbs.reservations[reserved], start_s=begin_s, end_s=begin_s + 600)

        cluster.server.do(begin_soon)
        cluster.wait(lambda: is_up(cluster, "node2"), what="node2 to be up")
    assert came_up_s(cluster, "node2", asleep_s, time.time()) < begin_s, cluster.describe_state()
    assert [cluster.nodes[node].state for node in ALL].count(NodeState.OFF) == 2, cluster.describe_state()
    cluster.server.run("pbs_rdel", reserved)

"""The network of half of the BMCs is dead for a while: the other nodes go on, and these are left alone."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise

import pytest
from needed_programs import need
from node_story import FLAT, offpeak, orders, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.services.agent.status import fetch_status

REACHED, CUT_OFF = ("node1", "node2", "node3"), ("node4", "node5", "node6")
CUT_OFF_S = 30.0
SENT = 'SELECT "order", subject FROM intents WHERE at_unix_s >= ? AND subject IN (?, ?, ?)'
LONGEST_CYCLE_S = 20.0
"""Polls end after four time-outs of a second, on a busy machine."""

pytestmark = [
    pytest.mark.usefixtures("nobody_suffers"),
    pytest.mark.skipif(os.geteuid() != 0, reason="iptables: needs root"),
]


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    need(["iptables"], packages="iptables")
    # Slurm waits so long for a node that is cut off.
    return start_powered(PoweredPlan(nodes=len(REACHED + CUT_OFF), resume_timeout_s=300))


@contextmanager
def dead_network(hosts: Iterable[str]) -> Iterator[None]:
    """Let all packets to these addresses of this machine be lost until the block ends."""
    with ExitStack() as rules:
        for host in hosts:
            rule = ("INPUT", "--destination", host, "--jump", "DROP")
            subprocess.run(("iptables", "--wait", "--insert", *rule), check=True)
            rules.callback(subprocess.run, ("iptables", "--wait", "--delete", *rule), check=True)
        yield


def test_half_of_the_bmcs_are_cut_off(cluster: PoweredCluster, zygote: Zygote) -> None:
    settings = {**FLAT, "agent": {"unknown_percent": 50}, "hardware": {"timeout": "1s"}}
    with agent(cluster, write_site(cluster, settings), by=zygote.start):
        jobs = [*cluster.jobs.submit(on="node[2,5]", nodes=2, seconds=60), *cluster.jobs.submit(on="node6", seconds=60)]
        wait_for_sleep(cluster, "node1", "node3", "node4")
        with dead_network(cluster.nodes[node].bmc.host for node in CUT_OFF):
            begin_s, rounds_s = time.time(), list[float]()
            wakes, waits = (cluster.jobs.submit(on=node, seconds=1)[0] for node in ("node1", "node4"))

            def has_passed() -> bool:
                status = fetch_status(cluster.folder / "agent.sock", ask="status")
                rounds_s.append(status.at_unix_s)
                states = cluster.jobs.states()
                ended = all(states[job] == "COMPLETED" for job in (wakes, jobs[0]))
                return ended and orders(cluster, "node2", begin_s)[-1:] == ["soft_off"]

            cluster.wait(
                lambda: has_passed() and time.time() - begin_s > CUT_OFF_S, what="reachable nodes to wake and sleep"
            )
            assert max(later - earlier for earlier, later in pairwise(rounds_s)) < LONGEST_CYCLE_S
            with closing(sqlite3.connect(cluster.folder / "ledger.sqlite", timeout=300)) as ledger:
                assert ledger.execute(SENT, (begin_s, *CUT_OFF)).fetchall() == []
            assert cluster.jobs.states()[waits] == "CONFIGURING"
            for node in CUT_OFF:
                assert "unknown" in offpeak(cluster, "nodes", node, "show")
        for job in (waits, *jobs):
            cluster.wait(lambda job=job: cluster.jobs.states()[job] == "COMPLETED", what="all jobs")
        wait_for_sleep(cluster, *REACHED, "node5")

"""What sdiag says about slurmctld's load and the agent's requests."""

import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from slurm_fixtures import SlurmCluster

from benchmarks.local_slurm.processes import wait_until
from benchmarks.queue_cycle import queried_by_us
from offpeak.model.orders import NodeChange
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.port import NO_LOAD, SchedulerLoad, in_use
from offpeak.plugin.slurm.configuration import parse_load
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings

OF_AGENT = {"REQUEST_JOB_INFO", "REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO", "REQUEST_UPDATE_NODE"}

SDIAG = b"""\
*******************************************************
sdiag output at Fri Nov 27 04:43:05 2026 (1795754585)
Data since      Fri Nov 27 00:00:00 2026 (1795737600)
*******************************************************
Server thread count:  41
RPC queue enabled:    0
Agent queue size:     7
Agent count:          0
DBD Agent queue size: 12

Remote Procedure Call statistics by message type
\tREQUEST_STATS_INFO                      ( 2035) count:34     ave_time:219    total_time:7446

Remote Procedure Call statistics by user
\troot            (       0) count:87     ave_time:236    total_time:20616
\toffpeak         (     998) count:12     ave_time:1500   total_time:18000
\t4294967         ( 4294967) count:3      ave_time:1      total_time:3

Pending RPC statistics
\tREQUEST_TERMINATE_JOB                   ( 6011) count:998
"""


def test_load_is_that_of_the_user() -> None:
    assert parse_load(SDIAG, uid=998, latency_s=0.01) == SchedulerLoad(0.01, 41, 7, 12, 0.018)
    assert parse_load(SDIAG, uid=0, shared_user="root") == SchedulerLoad(0.0, 41, 7, 87, 0.020616, "root")
    # A user without a request yet, and names of any length.
    assert parse_load(SDIAG, uid=5).requests == 0
    assert parse_load(SDIAG, uid=4294967).requests == 3


@pytest.mark.parametrize(
    "answer", [b"", b"No data available. Probably slurmctld is not working\n", SDIAG[:100], b"\xff"]
)
def test_an_answer_without_figures_is_no_load(answer: bytes) -> None:
    assert parse_load(answer, uid=0) == NO_LOAD


def test_slurmctld_counts_what_a_reading_sends(basic_slurm: SlurmCluster) -> None:
    with queried_by_us(basic_slurm.environment):
        scheduler = SlurmScheduler(SlurmSettings())
        scheduler.traits()
        before, after = scheduler.view().load, scheduler.view().load
    assert after.user == "root" if os.geteuid() == 0 else after.user == ""
    assert before.requests is not None
    assert after.requests is not None
    # squeue, the nodes with their partitions, the reservations, sdiag; nodes register now and then.
    assert 6 <= after.requests - before.requests <= 10
    assert 0 < after.latency_s < 30


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_sdiag_that_is_refused_costs_nothing_but_the_figures(
    basic_slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A site may let only its admins run it; one that ends with 0 and prints nothing is no better."""
    folder = tmp_path_factory.mktemp("bin")
    for script in ("echo 'sdiag: error: Access denied' >&2; exit 1", "exit 0"):
        (folder / "sdiag").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "sdiag").chmod(0o755)
        code = (
            "from offpeak.plugin.slurm.scheduler import SlurmScheduler\n"
            "from offpeak.settings.agent import SlurmSettings\n"
            "view = SlurmScheduler(SlurmSettings()).view(); print(len(view.nodes), view.load.requests)"
        )
        environment = basic_slurm.environment
        environment |= {"PATH": f"{folder}:{environment['PATH']}"}
        done = subprocess.run((sys.executable, "-c", code), env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "3 None\n"


def messages(cluster: SlurmCluster) -> Counter[str]:
    """Return how many messages of each type slurmctld has got from commands, without sdiag's."""
    shown = re.findall(r"^\s+(REQUEST_\w+) +\( *\d+\) count:(\d+) ", cluster.run("sdiag"), re.MULTILINE)
    return Counter({name: int(count) for name, count in shown if name in OF_AGENT})


def test_nodes_that_go_down_share_their_requests_and_ends_of_jobs_cost_none(basic_slurm: SlurmCluster) -> None:
    names = ["node1", "node2", "node3"]
    with queried_by_us(basic_slurm.environment):
        scheduler = SlurmScheduler(SlurmSettings(timeout_s=300))
        assert in_use(scheduler, "node1")
        counted = [messages(basic_slurm)]
        job = basic_slurm.run("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 1").strip()

        def ended() -> bool:
            counted[0] = messages(basic_slurm)
            (found,) = (each for each in scheduler.view().jobs if each.job_id == job)
            return found.state is JobState.ENDED and found.end_s is not None

        wait_until(ended, what="the end of the job")
        counted.append(messages(basic_slurm))
        assert scheduler.change_nodes(names, NodeChange.CLOSE, reason="offpeak: test") == {}
        try:
            counted.append(messages(basic_slurm))
            assert set(scheduler.find_uses(names).values()) == {""}
            counted.append(messages(basic_slurm))
        finally:
            assert scheduler.change_nodes(names, NodeChange.OPEN, reason="") == {}
    jobs, nodes, partitions, update = sorted(OF_AGENT)
    reading, closing, look = (after - before for before, after in pairwise(counted))
    assert reading == Counter({jobs: 1, nodes: 1, partitions: 2})
    assert closing == Counter({nodes: 1, partitions: 1, update: 1})
    # The list of all jobs, that of the jobs of these nodes, and the nodes.
    assert look == Counter({jobs: 2, nodes: 2, partitions: 3})

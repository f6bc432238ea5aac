"""Slurm counts the time limit of a job from the end of the boot of its nodes, as the users' guide says."""

import re
from datetime import datetime

import pytest
from node_story import FLAT, wait_for_sleep
from powered_fixtures import StartPowered
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan

BOOT_S, LIMIT_MIN = 10.0, 10
TIMES = re.compile(r"(SubmitTime|StartTime|EndTime)=(\S+)")

pytestmark = pytest.mark.usefixtures("nobody_suffers")


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=1, boot_s=BOOT_S, resume_timeout_s=120))


def test_a_boot_does_not_count_against_the_time_limit(cluster: PoweredCluster, zygote: Zygote) -> None:
    with agent(cluster, write_site(cluster, FLAT), by=zygote.start):
        wait_for_sleep(cluster, "node1")
        (job,) = cluster.jobs.submit(on="node1", seconds=60, limit_min=LIMIT_MIN)
        cluster.wait(lambda: cluster.jobs.states()[job] == "RUNNING", what="the job to start")
        shown = dict(TIMES.findall(cluster.jobs.slurm.run("scontrol", "--oneliner", "show", "job", job)))
        submit, start, end = (datetime.fromisoformat(shown[name]) for name in ("SubmitTime", "StartTime", "EndTime"))
        assert (start - submit).total_seconds() >= BOOT_S
        assert (end - start).total_seconds() == LIMIT_MIN * 60

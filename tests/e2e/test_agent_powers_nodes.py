"""The agent puts idle nodes to sleep by IPMI, and a job wakes them; the ledger has the energy of the job."""

import json
from collections.abc import Iterator

import pytest
from node_story import FLAT, offpeak, orders, sleeping, wait_for_sleep
from powered_fixtures import StartStage
from powered_stage import PoweredStage
from zygote import Zygote

from benchmarks.local_slurm.agent import RunningAgent, agent, write_site
from benchmarks.local_slurm.meters import MeteredRacks, metered_racks
from benchmarks.local_slurm.node import BUSY_W
from benchmarks.local_slurm.plan import PoweredPlan

ALL = ("node1", "node2", "node3", "node4")
WATTS = 180.0

pytestmark = pytest.mark.usefixtures("nobody_suffers")


@pytest.fixture(scope="module")
def cluster(start_stage: StartStage) -> PoweredStage:
    return start_stage(PoweredPlan(nodes=len(ALL)))


@pytest.fixture(scope="module")
def racks(cluster: PoweredStage) -> Iterator[MeteredRacks]:
    with metered_racks(cluster) as made:
        yield made


@pytest.fixture
def running(cluster: PoweredStage, racks: MeteredRacks, zygote: Zygote) -> Iterator[RunningAgent]:
    settings = write_site(cluster, FLAT, racks=racks)
    with agent(cluster, settings, by=zygote.start) as made:
        yield made


@pytest.mark.quick
def test_idle_nodes_sleep_and_a_job_wakes_them_and_is_accounted(cluster: PoweredStage, running: RunningAgent) -> None:
    wait_for_sleep(cluster, *ALL)
    assert [orders(cluster, node) for node in ALL] == [["soft_off"]] * len(ALL)
    assert all(node.bmc.lines("power") == ["off"] for node in cluster.nodes.values())
    (job,) = cluster.jobs.submit(on="node[1-2]", nodes=2, seconds=10, watts=WATTS)
    cluster.wait(lambda: cluster.jobs.states()[job] == "COMPLETED", what="the job to end")
    assert [orders(cluster, node) for node in ALL] == [["soft_off", "on"]] * 2 + [["soft_off"]] * 2
    assert [entry.what for entry in cluster.jobs.trace()] == ["start", "end"]
    cluster.wait(lambda: used(cluster) is not None, what="the job in the ledger")
    energy_j = used(cluster)
    assert energy_j is not None
    ran_s = cluster.jobs.trace()[1].at_s - cluster.jobs.trace()[0].at_s
    # One of its nodes drew what the job says, the other as much as a busy one does. The ledger's sums are of minutes.
    assert energy_j == pytest.approx((WATTS + BUSY_W) * ran_s, rel=0.5)
    assert running.runs
    assert sleeping(cluster) >= {"node3", "node4"}


def used(cluster: PoweredStage) -> float | None:
    """Return the energy of the only job [J] from the ledger, None before it is booked."""
    reported = json.loads(offpeak(cluster, "ledger", "energy", "--by", "user", "--json"))
    return float(reported[0]["energy_j"]) if reported else None

"""Whether a node is free is what a running Slurm says; where it cannot say, nobody may think that it is."""

from collections.abc import Callable

import pytest
from local_server import reserved_ports, wait_until
from slurm_cluster import Cluster

from plugin.slurm.ask import CannotAskSlurm, SlurmIsSilent
from plugin.slurm.node_in_use import node_in_use

OPEN = "is not drained: a job may start there"


def test_a_job_holds_its_node_only_and_a_free_one_is_drained(cluster: Cluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        wait_until(lambda: node_in_use("node2") == f"runs {job}", what="the job to start")
        assert node_in_use("node3") == OPEN
        cluster.run("scontrol", "suspend", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        assert node_in_use("node2") == f"runs {job}"
        cluster.run("scancel", job)
        wait_until(lambda: node_in_use("node2") == "", what="the job to be gone")
    finally:
        cluster.run("scancel", job)
        cluster.run("scontrol", "update", "nodename=node2", "state=resume")
    assert node_in_use("node2") == OPEN


@pytest.mark.parametrize("node", ["node99", "nowhere"])
def test_an_unknown_node_is_no_free_node(cluster: Cluster, node: str) -> None:  # noqa: ARG001
    with pytest.raises(CannotAskSlurm):
        node_in_use(node)


def test_a_slurmctld_that_is_down_does_not_say_that_a_node_is_free(use_settings: Callable[[str], Cluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent):
            node_in_use("node1", timeout_s=0.5)

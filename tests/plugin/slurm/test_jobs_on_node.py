"""Whether a node holds a job is what a running Slurm says; where it cannot say, nobody may think that it holds none."""

from collections.abc import Callable

import pytest
from local_server import reserved_ports, wait_until
from slurm_cluster import Cluster

from plugin.slurm.ask import CannotAskSlurm, SlurmIsSilent
from plugin.slurm.jobs_on_node import jobs_on_node


def test_a_job_holds_its_node_only(cluster: Cluster) -> None:
    job = cluster.run("sbatch", "--parsable", "--exclusive", "--nodelist=node2", "--wrap=sleep 300").strip()
    try:
        wait_until(lambda: jobs_on_node("node2") == (job,), what="the job to start")
        assert jobs_on_node("node3") == ()
        cluster.run("scontrol", "suspend", job)
        assert jobs_on_node("node2") == (job,)
    finally:
        cluster.run("scancel", job)
    wait_until(lambda: jobs_on_node("node2") == (), what="the job to be gone")


@pytest.mark.parametrize("node", ["node99", "nowhere"])
def test_an_unknown_node_is_no_empty_node(cluster: Cluster, node: str) -> None:  # noqa: ARG001
    with pytest.raises(CannotAskSlurm):
        jobs_on_node(node)


def test_a_slurmctld_that_is_down_does_not_say_that_there_is_none(use_settings: Callable[[str], Cluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent):
            jobs_on_node("node1", timeout_s=0.5)

"""The machine as the running Slurm and recorded ones describe it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.local_slurm.processes import reserved_ports
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.plugin.slurm.commands import CannotAskSlurm, SlurmIsSilent
from offpeak.plugin.slurm.nodes import SlurmMachine, parse_machine, read_machine

pytestmark = pytest.mark.quick

CONFIG = (
    b"Configuration data as of 2026-11-20T22:00:00\nClusterName             = alps\nCommunicationParameters = (null)\n"
)
NODE = b"NodeName=%s CPUAlloc=0 CPUTot=%d State=DOWN Partitions=a,b Comment=NodeName=x CPUTot=1 Reason=a CPUTot=2\n"


def test_nodes_of_the_running_cluster_count_once(cluster: SlurmCluster) -> None:
    assert len(cluster.run("sinfo", "--noheader", "--Node").splitlines()) == 8
    assert read_machine() == SlurmMachine("test", nodes=4, processors_per_node=4, unlike=0)


def test_a_node_that_is_down_counts_too(cluster: SlurmCluster) -> None:
    cluster.run("scontrol", "update", "nodename=node4", "state=down", "reason=test")
    try:
        assert read_machine().nodes == 4
    finally:
        cluster.run("scontrol", "update", "nodename=node4", "state=resume")


def test_a_slurmctld_that_is_down(use_settings: Callable[[str], SlurmCluster]) -> None:
    with reserved_ports(1) as (port,):
        use_settings(f"SlurmctldPort={port}")
        with pytest.raises(SlurmIsSilent, match=r"^scontrol: no answer within 0\.5 s$") as caught:
            read_machine(timeout_s=0.5)
    assert "scontrol ping" in caught.value.hint


@pytest.mark.parametrize("version", ["23.02", "24.11", "25.11"])
def test_newer_versions(shared: Path, version: str) -> None:
    answers = shared / "data" / "captures" / "slurm" / version
    nodes = (answers / "scontrol_show_node_o.txt").read_bytes()
    machine = parse_machine(nodes, (answers / "scontrol_show_config.txt").read_bytes())
    assert machine == SlurmMachine("ci", nodes=len(nodes.splitlines()), processors_per_node=4, unlike=0)


@given(st.lists(st.integers(1, 256), min_size=1, max_size=30))
def test_a_node_has_what_most_have(sizes: list[int]) -> None:
    machine = parse_machine(b"".join(NODE % (b"n%d" % i, size) for i, size in enumerate(sizes)), CONFIG)
    assert (machine.cluster, machine.nodes) == ("alps", len(sizes))
    assert machine.processors_per_node is not None
    assert sizes.count(machine.processors_per_node) == max(map(sizes.count, sizes))
    assert machine.unlike == len(sizes) - sizes.count(machine.processors_per_node)


def test_sizes_that_slurm_does_not_show() -> None:
    assert parse_machine(b"NodeName=n1 State=FUTURE\nNodeName=n2\n", b"") == SlurmMachine("", 2, None, 0)


def test_a_slurm_that_shows_no_node_is_refused() -> None:
    with pytest.raises(CannotAskSlurm, match="Slurm shows no node") as caught:
        parse_machine(b"No nodes in the system\n", CONFIG)
    assert "PrivateData=nodes" in caught.value.hint

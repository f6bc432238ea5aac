"""What slurm.conf promises, on a real slurmctld: excluded nodes stay up, and all commands name the same faults."""

import tomllib
from pathlib import Path

import pytest
from node_story import FLAT, for_a_while, is_up, orders, sleeping, wait_for_line, wait_for_sleep
from powered_fixtures import StartPowered
from told_findings import broken_rules, init, told_findings
from zygote import Zygote

from benchmarks.local_slurm.agent import agent, run_offpeak, write_site
from benchmarks.local_slurm.cluster import PoweredCluster
from benchmarks.local_slurm.plan import PoweredPlan
from offpeak.plugin.contract.slurm import SLURM_RULES

ALL = ("node1", "node2", "node3", "node4", "node5", "node6")
PARTITIONS = """\
PartitionName=batch Nodes=node[1-4,6] Default=YES MaxTime=1-0 State=UP OverSubscribe=EXCLUSIVE
PartitionName=quiet Nodes=node5 MaxTime=1-0 State=UP OverSubscribe=EXCLUSIVE"""
EXCLUDED = "SuspendExcNodes=node1,node[2-4]:2\nSuspendExcParts=quiet"


@pytest.fixture(scope="module")
def cluster(start_powered: StartPowered) -> PoweredCluster:
    return start_powered(PoweredPlan(nodes=len(ALL), partitions=PARTITIONS, settings=EXCLUDED))


def configure(cluster: PoweredCluster, before: str, after: str) -> None:
    """Let an admin change slurm.conf while slurmctld runs."""
    conf = cluster.slurm.conf
    text = conf.read_text()
    assert before in text
    conf.write_text(text.replace(before, after))
    cluster.run("scontrol", "reconfigure")


def test_excluded_nodes_stay_up_until_an_admin_includes_them(
    cluster: PoweredCluster, zygote: Zygote, tmp_path: Path
) -> None:
    settings = write_site(cluster, {"agent": {"queue": "off"}, **FLAT})
    init(cluster, tmp_path / "new")
    written = (tmp_path / "new" / "offpeak.toml").read_text()
    assert tomllib.loads(written)["agent"]["nodes"] == "node[2-4,6]"
    assert "# Left out: node1, by SuspendExcNodes=node1 of the scheduler." in written
    assert "# Left out: node5, by SuspendExcParts=quiet of the scheduler." in written
    with agent(cluster, settings, by=zygote.start) as running:
        wait_for_sleep(cluster, "node6")
        cluster.wait(lambda: len(sleeping(cluster)) == 2, what="one of three nodes to sleep of which two stay up")
        for_a_while()
        assert all(is_up(cluster, node) for node in ("node1", "node5"))
        assert len(sleeping(cluster) & {"node2", "node3", "node4"}) == 1
        refused = run_offpeak(cluster, "nodes", "node1", "sleep")
        assert "node1: the scheduler's configuration keeps it up: SuspendExcNodes=node1" in refused.stderr
        assert orders(cluster, "node1") == []
        configure(cluster, EXCLUDED, "SuspendExcNodes=node[2-4]:2")
        wait_for_sleep(cluster, "node1", "node5")
        wait_for_line(running, "SuspendExcNodes=node1: well again")
        assert len(sleeping(cluster) & {"node2", "node3", "node4"}) == 1
    configure(cluster, "SuspendExcNodes=node[2-4]:2", EXCLUDED)


CONTRACTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "clean": ({"SuspendExcNodes": "", "SuspendExcParts": "", "SchedulerParameters": "bf_interval=3,defer"}, set()),
    "times and rates": (
        {
            "SuspendTime": "600",
            "ResumeFailProgram": "",
            "ReturnToService": "0",
            "SlurmdTimeout": "20",
            "ResumeRate": "1",
            "SuspendRate": "2",
            "SlurmctldParameters": "idle_on_node_suspend,max_powered_nodes=3,power_save_interval=90",
            "PartitionName=quiet": "Nodes=node5 MaxTime=1-0 State=UP SuspendTime=300",
        },
        {
            *(
                "SuspendTime: long",
                "ResumeFailProgram",
                "ReturnToService",
                "SlurmdTimeout",
                "ResumeRate",
                "SuspendRate",
            ),
            *("idle_on_node_suspend", "max_powered_nodes", "power_save_interval", "SuspendTime of a partition"),
            "SuspendExcNodes, SuspendExcParts",
        },
    ),
    "programs": (
        {"SuspendProgram": "/bin/true", "ResumeProgram": "/none/wake", "SuspendExcNodes": "node[1,9]"},
        {
            *("SuspendProgram, ResumeProgram: can be run", "SuspendProgram, ResumeProgram: offpeak's"),
            *("SuspendExcNodes, SuspendExcParts", "SuspendExcNodes: known nodes"),
        },
    ),
    "off": (
        {"SuspendProgram": "", "SuspendTime": "INFINITE"},
        {"SuspendProgram, ResumeProgram: set", "SuspendTime: finite", "SuspendExcNodes, SuspendExcParts"},
    ),
}


@pytest.mark.parametrize("name", CONTRACTS)
def test_all_commands_name_the_same_faults_in_the_same_words(
    cluster: PoweredCluster, zygote: Zygote, tmp_path: Path, name: str
) -> None:
    changes, expected = CONTRACTS[name]
    conf = cluster.slurm.conf
    before = conf.read_text()
    lines = [line for line in before.splitlines() if not line.startswith(tuple(f"{key}=" for key in changes))]
    lines = [line for line in lines if not line.startswith(tuple(f"{key} " for key in changes))]
    own = [f"{key} {value}" if key.startswith("Part") else f"{key}={value}" for key, value in changes.items() if value]
    conf.write_text("\n".join([*lines, *own, ""]))
    try:
        cluster.run("scontrol", "reconfigure")
        messages = told_findings(cluster, tmp_path / "new", zygote.start)
    finally:
        conf.write_text(before)
        cluster.run("scontrol", "reconfigure")
    # But for one of them, jobs that may wait start at their submission.
    assert broken_rules(messages, SLURM_RULES) == expected | ({"job_submit.lua, defer"} if expected else set())

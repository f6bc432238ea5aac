"""A real slurmctld runs our programs: they tell the agent, or wake the node's BMC where there is none."""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_socket import agent_socket
from ipmi_fixtures import MachineOf
from needed_programs import need
from slurm_fixtures import PACKAGES, PROGRAMS
from slurm_programs import DEPLOYED, NAMES, SlurmPrograms, slurm_programs

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from benchmarks.local_slurm.processes import listens, reserved_ports, running, wait_until
from benchmarks.local_slurm.servers import HOST, SlurmCluster, munge, slurmctld, slurmd, wait_for_nodes
from offpeak.machines.inventory import Inventory
from offpeak.power.wake_list import make_wake_list, write_wake_list

CLOUD = """
NodeName=cloud1 State=CLOUD NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=1000
PartitionName=batch Nodes=node[1-2] Default=YES State=UP
PartitionName=cloud Nodes=cloud1 State=UP SuspendTime=2 SuspendTimeout=1 ResumeTimeout=300
"""
SITES_OWN = """#!/bin/sh
echo "$(basename "$0") $* $(cat "$SLURM_RESUME_FILE" 2>/dev/null)" >>"{said}"
"""


@dataclass(frozen=True)
class Site:
    """A cluster of two nodes and one of a cloud, and the programs that its slurm.conf names."""

    cluster: SlurmCluster
    programs: SlurmPrograms
    cloud_port: int

    def reported(self, node: str, state: str) -> None:
        """Ask Slurm for that state of the node."""
        self.cluster.run("scontrol", "update", f"nodename={node}", f"state={state}")

    def wait(self, node: str, *flags: str) -> None:
        """Wait until Slurm shows all these flags of the node."""
        wait_until(lambda: set(flags) <= self.flags(node), what=f"{node} to be {flags}", log=self.programs.log)

    def flags(self, node: str) -> set[str]:
        """Return the flags that Slurm shows of the node."""
        shown = self.cluster.run("scontrol", "show", "node", node)
        found = re.search(r"State=(\S+)", shown)
        assert found
        return set(found[1].split("+"))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    need(PROGRAMS, packages=PACKAGES)
    with tempfile.TemporaryDirectory(prefix="offpeak-slurm-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        port, cloud_port, *node_ports = stack.enter_context(reserved_ports(4))
        programs = slurm_programs(folder)
        conf = conf_for(programs) + CLOUD.format(host=HOST, port=cloud_port)
        cluster = SlurmCluster(folder, stack.enter_context(munge(folder)), port, tuple(node_ports), conf)
        cluster.write_conf()
        stack.enter_context(slurmctld(cluster))
        for number in (1, 2):
            stack.enter_context(slurmd(cluster, number))
        wait_for_nodes(cluster)
        yield Site(cluster, programs, cloud_port)


def conf_for(programs: SlurmPrograms) -> str:
    """Return what a site includes, with these programs, and times for a test."""
    text = (DEPLOYED / "slurm.conf.offpeak").read_text()
    for name in NAMES:
        text = re.sub(rf"=/usr/lib/offpeak/{name}$", f"={programs.wrapped(name)}", text, flags=re.MULTILINE)
    text = re.sub(r"SuspendTimeout=\d+", "SuspendTimeout=1", text)
    # Cluster's own slurm.conf has it, and no name may stand there twice.
    return re.sub(r"ReturnToService=2\n", "", text)


def test_wake_of_slurm_reaches_the_agent_or_else_the_bmc(
    site: Site, few_bmcs: list[SimulatedBmc], machine_of: MachineOf
) -> None:
    programs, (bmc, other, _) = site.programs, few_bmcs
    machines = (machine_of(bmc, node="node1"), machine_of(other, node="node2"))
    write_wake_list(programs.state, make_wake_list(Inventory(programs.folder / "inventory.toml", machines)))
    with agent_socket(programs.socket) as agent:
        site.reported("node[1-2]", "power_down")
        wait_until(lambda: len(agent.requests) == 1, what="suspend", log=programs.log)
        assert (agent.requests[0].what, agent.requests[0].nodes) == ("suspend", ("node1", "node2"))
        for node in ("node1", "node2"):
            site.wait(node, "POWERED_DOWN")
        asleep = site.cluster.run("sinfo", "--noheader", "--states=powered_down", "--format=%N").split()
        assert set(asleep) == {"node[1-2]"}
        job = site.cluster.run("sbatch", "--parsable", "--nodelist=node2", "--wrap=true", "--output=/dev/null").strip()
        wait_until(lambda: len(agent.requests) == 2, what="resume", log=programs.log)
        assert (agent.requests[1].what, agent.requests[1].nodes) == ("resume", ("node2",))
        assert [str(each["job_id"]) for each in json.loads(agent.requests[1].text)["jobs"]] == [job]
    bmc.write("power", "off")
    site.reported("node1", "power_up")
    wait_until(lambda: bmc.lines("orders") == ["on"], what="the BMC's order", log=programs.log)
    wait_until(lambda: "was ordered to switch it on" in programs.lines()[-1], what="the log", log=programs.log)
    assert other.lines("orders") == []
    site.cluster.run("scancel", job)


def test_slurm_bursts_into_a_cloud_by_the_sites_own_programs(site: Site) -> None:
    programs, said = site.programs, site.programs.folder / "said"
    for name in ("resume", "suspend"):
        script = programs.folder / name
        script.write_text(SITES_OWN.format(said=said))
        script.chmod(0o755)
    own = "".join(f"{name} = {programs.folder / name}\n" for name in ("resume", "suspend"))
    programs.next_program.write_text(f"[next_program]\nnodes = cloud1\n{own}")

    def count(name: str) -> int:
        return said.read_text().count(f"{name} cloud1 ") if said.exists() else 0

    run, conf = site.cluster.run, site.cluster.conf
    with agent_socket(programs.socket) as agent:
        job = run("sbatch", "--parsable", "--partition=cloud", "--wrap=true", "--output=/dev/null").strip()
        wait_until(lambda: count("resume") == 1, what="the site's program", log=programs.log)
        assert [str(each["job_id"]) for each in json.loads(said.read_text().split(maxsplit=2)[2])["jobs"]] == [job]
        command = ("slurmd", "-D", "-b", "-f", conf, "-N", "cloud1")
        log, port = programs.folder / "cloud1.log", site.cloud_port
        with running(*command, environment={"SLURM_CONF": str(conf)}, log=log, ready=lambda: listens(port)):
            wait_until(lambda: "COMPLETED" in run("scontrol", "show", "job", job), what="the job", log=programs.log)
            wait_until(lambda: count("suspend") == 1, what="Slurm to give the node back", log=programs.log)
    assert agent.requests == []

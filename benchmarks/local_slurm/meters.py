"""PDUs that meter the nodes of a powered cluster, over SNMP: their watts follow what the nodes do."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.local_slurm.node import LocalCluster, PoweredNode
from benchmarks.local_slurm.processes import free_udp_port
from offpeak.sim_backend.virtual.machine_room import MeteredLoad, SnmpAgent, VirtualPdu
from offpeak.sim_backend.virtual.room_plan import OUTLETS, PduLogins


@dataclass(frozen=True)
class MeteredRacks:
    """PDUs by their names, rack1, rack2 and so on, and where each listens. The community is "public"."""

    pdus: Mapping[str, VirtualPdu]
    hosts: Mapping[str, str]
    port: int


@dataclass(frozen=True)
class MeteredNode:
    """A node as its outlet sees it."""

    node: PoweredNode

    @property
    def power_w(self) -> float:
        """The present power [W]."""
        return self.node.watts

    @property
    def energy_j(self) -> float:
        """The energy used since the start of the cluster [J]."""
        return self.node.joules


@contextmanager
def metered_racks(cluster: LocalCluster) -> Iterator[MeteredRacks]:
    """Run the PDUs until the block ends, beside the BMCs."""
    nodes = list(cluster.nodes.values())
    begin_s, network = time.monotonic(), nodes[0].bmc.host.rpartition(".")[0]
    pdus, hosts = {}, {}
    for at in range(0, len(nodes), OUTLETS):
        name = f"rack{at // OUTLETS + 1}"
        outlets: dict[int, MeteredLoad | None] = dict.fromkeys(range(1, OUTLETS + 1))
        outlets |= {row: MeteredNode(node) for row, node in enumerate(nodes[at : at + OUTLETS], 1)}
        pdus[name] = VirtualPdu(name, lambda: time.monotonic() - begin_s, outlets)
        hosts[name] = f"{network}.{253 - at // OUTLETS}"
    racks = MeteredRacks(pdus, hosts, free_udp_port(hosts["rack1"]))
    with _served(racks):
        yield racks


@contextmanager
def _served(racks: MeteredRacks) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="PDUs")
    thread.start()
    try:
        agents = asyncio.run_coroutine_threadsafe(_started(racks), loop).result(30)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(_ended(agents), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _started(racks: MeteredRacks) -> list[SnmpAgent]:
    agents = [SnmpAgent(pdu, PduLogins("public")) for pdu in racks.pdus.values()]
    for agent, host in zip(agents, racks.hosts.values(), strict=True):
        await agent.start(host, racks.port)
    return agents


async def _ended(agents: list[SnmpAgent]) -> None:
    for agent in agents:
        agent.close()
    # Closed transports have their last word in the next rounds of the loop.
    await asyncio.sleep(0.01)

"""The process that the devices live in: `python -m benchmarks.soak.room FOLDER PLAN`, which obeys lines of JSON.

A line moves the room's clock, says which device is ill and what nodes work; the answer is how everything truly is.
"""

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from benchmarks.soak.plan import BMC_PORT, PDU_PORT, SoakPlan
from benchmarks.soak.truth import NodeTruth, PduTruth
from benchmarks.soak.watched_bmc import WatchedBmc
from offpeak.node_class_file import bundled_node_class
from sim_backend.virtual.bmc import VirtualBmc
from sim_backend.virtual.live_node import LiveNode
from sim_backend.virtual.logins import RoomLogins
from sim_backend.virtual.node import VirtualNode
from sim_backend.virtual.pdu import PduFaults, VirtualPdu
from sim_backend.virtual.rmcp.server import BmcServer, serve
from sim_backend.virtual.room_folder import room_logins
from sim_backend.virtual.snmp_agent import SnmpAgent

LOSS_FACTOR = 1.06


class SoakRoom:
    """Nodes, BMCs and PDUs, whose clock stands still until it is told the next time."""

    def __init__(self, plan: SoakPlan, logins: RoomLogins) -> None:
        self._plan, self._logins = plan, logins
        self._now_s = 0.0
        chance, node = random.Random(plan.seed), VirtualNode(bundled_node_class("server"))
        self._nodes = {name: LiveNode(name, self._clock, chance, node) for name in plan.bmc_hosts}
        self._bmcs: dict[str, WatchedBmc] = {}
        self._pdus = {
            name: VirtualPdu(name, self._clock, {row: at and self._nodes[at] for row, at in rows.items()}, LOSS_FACTOR)
            for name, rows in plan.outlets.items()
        }

    async def listen(self, open_ends: AsyncExitStack) -> None:
        """Let all devices listen until `open_ends` are closed."""
        for name, host in self._plan.bmc_hosts.items():
            transport = await serve(VirtualBmc(self._nodes[name], self._logins.bmc), host, BMC_PORT)
            open_ends.callback(transport.close)
            self._bmcs[name] = WatchedBmc(cast(BmcServer, transport.get_protocol()).desk)
        for name, host in self._plan.pdu_hosts.items():
            agent = SnmpAgent(self._pdus[name], self._logins.pdu)
            open_ends.callback(agent.close)
            await agent.start(host, PDU_PORT)

    def told(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a line says and return the truth; sessions are those before it."""
        sessions = {name: bmc.sessions() for name, bmc in self._bmcs.items()}
        self._now_s = line["at_s"]
        for name, utilisation in line["use"].items():
            self._nodes[name].use(utilisation)
        for name, bmc in self._bmcs.items():
            bmc.fall_ill(line["faults"].get(name, ""))
        for name, pdu in self._pdus.items():
            _fall_ill(pdu, line["faults"].get(name, ""))
        return {
            "nodes": {name: asdict(self._node_truth(name, *sessions[name])) for name in self._nodes},
            "pdus": {name: asdict(_pdu_truth(pdu)) for name, pdu in self._pdus.items()},
        }

    def _clock(self) -> float:
        return self._now_s

    def _node_truth(self, name: str, sessions: int, left_sessions: int) -> NodeTruth:
        node, orders = self._nodes[name], len(self._bmcs[name].bmc.orders)
        return NodeTruth(node.powered, node.power_w, node.energy_j, orders, sessions, left_sessions)


def _fall_ill(pdu: VirtualPdu, fault: str) -> None:
    was = pdu.faults
    pdu.faults = PduFaults(silent=fault in ("silent", "restarts"), sentinel=fault == "says -1")
    if fault == "restarts" and not was.silent:
        pdu.reboot()
    if fault == "counters reset":
        pdu.reset_counters()


def _pdu_truth(pdu: VirtualPdu) -> PduTruth:
    return PduTruth(pdu.power_w, {str(outlet): pdu.outlet_w(outlet) for outlet in pdu.outlets})


async def _serve(folder: Path, plan: SoakPlan) -> None:
    room = SoakRoom(plan, room_logins(folder))
    async with AsyncExitStack() as open_ends:
        await room.listen(open_ends)
        print("{}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(room.told(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), SoakPlan(**json.loads(sys.argv[2]))))

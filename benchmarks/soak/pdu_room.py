"""The process of the PDUs: `python -m benchmarks.soak.pdu_room FOLDER PLAN`, which obeys lines as that of the BMCs.

A line also says how the nodes are. SNMP takes a hundred times the work of IPMI: in one process BMCs would wait for it.
"""

import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from benchmarks.soak.obeys import obey_lines
from benchmarks.soak.plan import PDU_PORT, SoakPlan
from benchmarks.soak.truth import PduTruth
from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.machine_room import PduFaults, SnmpAgent, VirtualPdu
from offpeak.sim_backend.virtual.node import LiveNode, VirtualNode
from offpeak.sim_backend.virtual.room_plan import RoomLogins

LOSS_FACTOR = 1.06


class PduRoom:
    """PDUs with the nodes on their outlets."""

    def __init__(self, plan: SoakPlan, logins: RoomLogins) -> None:
        self._plan, self._logins, self._now_s = plan, logins, 0.0
        chance, self._class = random.Random(plan.seed), bundled_node_class("server")
        node = VirtualNode(self._class)
        self._nodes = {name: LiveNode(name, self._clock, chance, node) for name in plan.bmc_hosts}
        self._pdus = {
            name: VirtualPdu(name, self._clock, {row: self._nodes.get(at) for row, at in rows.items()}, LOSS_FACTOR)
            for name, rows in plan.outlets.items()
        }

    async def listen(self, open_ends: AsyncExitStack) -> None:
        """Let all PDUs listen until `open_ends` are closed."""
        for name, host in self._plan.pdu_hosts.items():
            agent = SnmpAgent(self._pdus[name], self._logins.pdu)
            open_ends.callback(agent.close)
            await agent.start(host, PDU_PORT)

    def obey(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a line says and return the truth."""
        self._now_s = line["at_s"]
        for name, state in line["states"].items():
            self._nodes[name].node = VirtualNode(self._class, **state)
        for name, pdu in self._pdus.items():
            _fall_ill(pdu, line["faults"].get(name, ""))
        return {"pdus": {name: asdict(_truth(pdu)) for name, pdu in self._pdus.items()}}

    def _clock(self) -> float:
        return self._now_s


def _fall_ill(pdu: VirtualPdu, fault: str) -> None:
    was_silent = pdu.faults.silent
    pdu.faults = PduFaults(silent=fault in ("silent", "restarts"), sentinel=fault == "says -1")
    if fault == "restarts" and not was_silent:
        pdu.reboot()
    if fault == "counters reset":
        pdu.reset_counters()


def _truth(pdu: VirtualPdu) -> PduTruth:
    return PduTruth(pdu.power_w, {str(outlet): pdu.outlet_w(outlet) for outlet in pdu.outlets})


if __name__ == "__main__":
    obey_lines(PduRoom)

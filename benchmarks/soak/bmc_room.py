"""The process of the nodes and their BMCs: `python -m benchmarks.soak.bmc_room FOLDER PLAN`, which obeys lines.

A line moves the clock, says which BMC is ill and what nodes work; the answer is how everything truly is.
"""

import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, cast

from benchmarks.soak.obeys import obey_lines
from benchmarks.soak.plan import BMC_PORT, SoakPlan
from benchmarks.soak.truth import NodeTruth
from benchmarks.soak.watched_bmc import WatchedBmc
from offpeak.model.node_class_file import bundled_node_class
from offpeak.sim_backend.virtual.node import LiveNode, VirtualBmc, VirtualNode
from offpeak.sim_backend.virtual.rmcp.server import BmcServer, serve
from offpeak.sim_backend.virtual.room_plan import RoomLogins


class BmcRoom:
    """Nodes and BMCs, whose clock stands still until it is told the next time."""

    def __init__(self, plan: SoakPlan, logins: RoomLogins) -> None:
        self._plan, self._logins, self._now_s = plan, logins, 0.0
        chance, node = random.Random(plan.seed), VirtualNode(bundled_node_class("server"))
        self._nodes = {name: LiveNode(name, lambda: self._now_s, chance, node) for name in plan.bmc_hosts}
        self._bmcs: dict[str, WatchedBmc] = {}

    async def listen(self, open_ends: AsyncExitStack) -> None:
        """Let all BMCs listen until `open_ends` are closed."""
        for name, host in self._plan.bmc_hosts.items():
            transport = await serve(VirtualBmc(self._nodes[name], self._logins.bmc), host, BMC_PORT)
            open_ends.callback(transport.close)
            self._bmcs[name] = WatchedBmc(cast(BmcServer, transport.get_protocol()).desk)

    def obey(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a line says and return the truth, and nodes as they are; sessions are those before it."""
        sessions = {name: bmc.sessions() for name, bmc in self._bmcs.items()}
        self._now_s = line["at_s"]
        for name, utilisation in line["use"].items():
            self._nodes[name].use(utilisation)
        for name, bmc in self._bmcs.items():
            bmc.fall_ill(line["faults"].get(name, ""))
        return {
            "nodes": {name: asdict(self._truth(name, *sessions[name])) for name in self._nodes},
            "states": {name: _state(node) for name, node in self._nodes.items()},
        }

    def _truth(self, name: str, sessions: int, left_sessions: int) -> NodeTruth:
        node, orders = self._nodes[name], len(self._bmcs[name].bmc.orders)
        return NodeTruth(node.powered, node.power_w, node.energy_j, orders, sessions, left_sessions)


def _state(node: LiveNode) -> dict[str, Any]:
    return {name: value for name, value in vars(node.now()).items() if name != "node_class"}


if __name__ == "__main__":
    obey_lines(BmcRoom)

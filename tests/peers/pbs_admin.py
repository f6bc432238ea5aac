"""An admin of Torque or OpenPBS, in the stand-in: pbsnodes, qmgr, and what is shown of nodes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pbs_standin import StandIn

from offpeak.plugin.pbs.openpbs import parse_openpbs_mark as mark_at_node
from offpeak.plugin.pbs.scheduler import MarkKind, NodeMark
from offpeak.plugin.pbs.torque import parse_torque_note as mark_in_note
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.sim_backend.pbs_standin.pbs import OPENPBS
from offpeak.sim_backend.scheduler.cluster import SimNode

REPAIR = "repair"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class PbsAdmin:
    """As stage.Admin. `by_hand` tells a node's BMC: PBS itself switches no node."""

    server: StandIn
    by_hand: Callable[[str, str], None]

    def close(self, node: str, reason: str) -> None:
        if self._openpbs:
            self.server.run("qmgr", "-c", f'set node {node} comment = "{reason}", state += offline')
        else:
            self.server.run("pbsnodes", "-o", "-N", reason, node)

    def open(self, node: str) -> None:
        if self._openpbs:
            self.server.run("qmgr", "-c", f"set node {node} state = free")
            self.server.run("qmgr", "-c", f"unset node {node} comment")
        else:
            self.server.run("pbsnodes", "-c", "-N", "", node)

    def power_down(self, node: str) -> bool:  # noqa: ARG002
        return False

    def power_up(self, node: str) -> None:
        raise NotImplementedError(f"{node}: PBS switches no node")

    def mended(self, node: str) -> None:
        self.open(node)
        # A node that is off and open is a broken one to PBS.
        self.by_hand(node, "on")

    def maintain(self, node: str) -> None:
        self.close(node, REPAIR)

    @contextmanager
    def nothing_starts(self) -> Iterator[None]:
        self.server.run("qmgr", "-c", "set server scheduling = false")
        yield
        self.server.run("qmgr", "-c", "set server scheduling = true")

    def let_go(self, job: str) -> None:
        """It was never given a node that did not come up."""

    def scheduler_state(self, node: str) -> SchedulerState | None:
        known = self._node(node)
        if known.used:
            return SchedulerState.BUSY
        if known.shut:
            return None if self.sleeps(node) or self.in_maintenance(node) else SchedulerState.DRAINED
        return SchedulerState.UP if known.alive else SchedulerState.DOWN

    def in_maintenance(self, node: str) -> bool:
        known = self._node(node)
        return bool(known.shut) and known.note == REPAIR and not self.sleeps(node)

    def is_shut(self, node: str) -> bool:
        known = self._node(node)
        return bool(known.shut) and known.note != REPAIR and not self.sleeps(node)

    def has_jobs(self, node: str) -> bool:
        return bool(self._node(node).used)

    def sleeps(self, node: str) -> bool:
        return self._is_off_with(node, MarkKind.ASLEEP)

    def is_withdrawn(self, node: str) -> bool:
        return self._is_off_with(node, MarkKind.WITHDRAWN)

    def _is_off_with(self, node: str, kind: MarkKind) -> bool:
        known = self._node(node)
        mark = self._mark(known)
        return bool(known.shut) and not known.alive and mark is not None and mark.kind is kind

    def shown(self) -> str:
        return self.server.do(lambda pbs: repr((pbs.cluster.nodes, pbs.attributes)))

    def _mark(self, known: SimNode) -> NodeMark | None:
        return mark_at_node(known.mark) if self._openpbs else mark_in_note(known.note)

    def _node(self, name: str) -> SimNode:
        return self.server.do(lambda pbs: pbs.cluster.nodes[name])

    @property
    def _openpbs(self) -> bool:
        return self.server.pbs.kind == OPENPBS

"""The caps on running nodes: orders of admins and of the agent, their end, and whether devices obey them.

`CapController` is what other parts of the agent call: `plan` chooses the caps that bring the draw of nodes down,
`carry_out` orders them, `lift` ends them. Each round ends caps that are over or no longer allowed, renews
those that nodes end by themselves, and reads the draws back. A device that accepts a cap and does not obey it gets its
former limit back, and is left alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from offpeak.door.effect import ADMIN, AGENT, DONE, Outcome, Refusal
from offpeak.errors import BadInput, DeviceError
from offpeak.machines.node_sets import fold
from offpeak.model import node_cap
from offpeak.power.door.cap_orders import DEAD_MAN_S, OBEYS_WITHIN_W, CapOrderer, CapOrders, CapRecord, CapRecords
from offpeak.power.drivers.caps import CapState
from offpeak.power.drivers.poll import iterate_completed
from offpeak.services.agent.loop import Loop, ProblemLog
from offpeak.services.agent.site_context import SiteContext

PERIOD_S = 15.0
READ_BACK_S = 60.0
SETTLED_S = 60.0
"""A device has lowered its draw so long after its cap at the latest."""
CLOCK_BACK_S = 60.0
OBEYS_WITHIN = 1.05
"""The draw of a device that obeys is at most so much above its cap: meters and controls are not exact."""


NO_CAP = "offpeak has set no cap there"
NONE: Mapping[str, float] = {}


class CapStatus(NamedTuple):
    """A cap in force, and what was read back from its device; its end is 0 if it is to be removed now."""

    node: str
    device: str
    cap_w: int
    limit_w: float | None
    draw_w: float | None
    by: str
    reason: str
    until_unix_s: float


class CapController(Loop):
    """Orders caps and keeps them. `left_alone` has the devices that do not obey, with the reasons, `freed` the nodes
    whose caps by the agent an admin has ended: `plan` caps neither.
    """

    name = "caps"
    period_s = PERIOD_S

    def __init__(
        self,
        site: Callable[[], SiteContext],
        records: CapRecords,
        doors: Callable[[], Awaitable[CapOrders]],
        problem_log: ProblemLog,
        clock: Callable[[], float],
    ) -> None:
        self._site, self.records, self._doors = site, records, doors
        self._problem_log, self._clock = problem_log, clock
        self._states: dict[str, CapState] = {}
        self._read_unix_s, self._is_loaded = 0.0, False
        self.left_alone: dict[str, str] = {}
        self.freed: set[str] = set()

    async def plan(self, nodes: Iterable[str], shed_w: float, saved_w: Mapping[str, float] = NONE) -> node_cap.CapPlan:
        """Return the caps that bring the draw of these nodes down by `shed_w`, each with its slowdown.

        Of nodes with a cap only those are capped further whose caps in force bring `saved_w`.
        Nodes that may not be capped, or whose draw or curve is not known, are left alone, with the reason in the plan.
        """
        orders, found, left = await self._doors(), [], {}
        free = []
        for node in nodes:
            refusal = orders.predict_refusal(node, CapOrderer(AGENT, ""))
            machine = self._site().by_name.get(node)
            if reason := self.left_alone.get(node) or (refusal.message if refusal else ""):
                left[node] = reason
            elif node in self.freed:
                left[node] = "an admin has ended its cap"
            elif machine is not None and machine.hardware.cap_curve is None:
                left[node] = node_cap.NO_CURVE
            elif node in saved_w or node not in self.records.by_node:
                free.append(node)
        async for node, state in self._read(orders, free):
            if isinstance(state, DeviceError):
                left[node] = str(state)
            elif state.draw_w is None:
                left[node] = "its device does not report its power"
            else:
                found.append(self._cappable(node, state, saved_w.get(node)))
        plan = node_cap.plan_caps(found, shed_w)
        return replace(plan, left=left | plan.left)

    async def carry_out(self, caps: Iterable[node_cap.NodeCap], orderer: CapOrderer) -> dict[str, Outcome | Refusal]:
        """Order these caps through the door, and return the outcome for each node."""
        return await (await self._doors()).cap({cap.node: cap.cap_w for cap in caps}, orderer)

    async def lift(self, nodes: Iterable[str], orderer: CapOrderer) -> dict[str, Outcome | Refusal]:
        """End the caps of these nodes that the orderer may end, an admin any, and return the outcome for each."""
        capped = {node: self.records.by_node[node] for node in nodes if node in self.records.by_node}
        ends = [node for node, record in capped.items() if orderer.by == record.by or orderer.by.startswith(ADMIN)]
        return await (await self._doors()).uncap(ends, orderer)

    def extend(self, nodes: Iterable[str], until_unix_s: float) -> None:
        """Let the agent's own caps of these nodes that would end before that time end then."""
        for record in [self.records.by_node[node] for node in nodes if node in self.records.by_node]:
            if record.by == AGENT and self._clock() < record.until_unix_s < until_unix_s:
                self.records.put(replace(record, until_unix_s=until_unix_s))

    async def order(self, nodes: tuple[str, ...], cap_w: int | None, orderer: CapOrderer) -> dict[str, Any]:
        """Carry out an admin's order, a cap or None for the former limits. Return a line for each outcome with its
        nodes, and whether any node `failed`.
        """
        if cap_w is None:
            capped = self.records.by_node
            self.freed |= {node for node in nodes if node in capped and capped[node].by == AGENT}
            outcomes = await self.lift(nodes, orderer)
            texts = {node: outcome_text(outcomes[node]) if node in outcomes else NO_CAP for node in nodes}
            return {"lines": _lines(texts, "has its former limit again"), "failed": any(set(texts.values()) - {NO_CAP})}
        orders = await self._doors()
        outcomes = await orders.cap(dict.fromkeys(nodes, cap_w), orderer)
        for node, outcome in outcomes.items():
            if isinstance(outcome, Outcome) and outcome.result == DONE:
                self.left_alone.pop(node, None)
        texts = {node: outcome_text(outcome) for node, outcome in outcomes.items()}
        done = [node for node, outcome in outcomes.items() if not texts[node]]
        notes = [note async for note in self._expectations(orders, done, cap_w)]
        lines = _lines(texts, f"is capped to {cap_w} W")
        return {"lines": [*lines, *dict.fromkeys(notes)], "failed": any(texts.values())}

    def status(self) -> tuple[CapStatus, ...]:
        """Return the caps in force, as they were last read back."""
        return tuple(map(self._status, self.records.by_node.values()))

    async def round(self) -> None:
        """End caps that are over, renew the others, and read back what they have brought."""
        if self._is_loaded and not self.records.by_node:
            return
        # The first call loads the caps that an earlier agent has left.
        orders, now = await self._doors(), self._clock()
        self._is_loaded = True
        ends: dict[str, str] = {}
        for node, record in self.records.by_node.items():
            refusal = orders.predict_refusal(node, CapOrderer(record.by or AGENT, record.reason))
            # A clock that was set back must not make a cap last longer.
            if record.until_unix_s <= now or now < record.since_unix_s - CLOCK_BACK_S:
                ends[node] = "it is over" if record.until_unix_s else "it was left behind, or failed"
            elif refusal is not None:
                ends[node] = refusal.message
        old = [node for node, record in self.records.by_node.items() if now - record.renewed_unix_s > DEAD_MAN_S / 3]
        problems = {node: str(why) for node, why in (await orders.renew(set(old) - ends.keys())).items()}
        if now - self._read_unix_s >= READ_BACK_S:
            self._read_unix_s = now
            ends |= await self._find_disobedient(orders, set(self.records.by_node) - ends.keys())
        for why in sorted(set(ends.values())):
            nodes = [node for node, reason in ends.items() if reason == why]
            outcomes = await orders.uncap(nodes, CapOrderer(AGENT, why))
            problems |= {node: text for node, outcome in outcomes.items() if (text := outcome_text(outcome))}
        self._states = {node: state for node, state in self._states.items() if node in self.records.by_node}
        self._problem_log.report("caps", "; ".join(_lines(problems | self.left_alone, "")) or None)

    async def _find_disobedient(self, orders: CapOrders, nodes: Iterable[str]) -> dict[str, str]:
        """Read the devices back, and return the reasons to end the caps of those that do not obey."""
        found: dict[str, str] = {}
        async for node, state in self._read(orders, nodes):
            record = self.records.by_node.get(node)
            if record is None or isinstance(state, DeviceError):
                continue
            self._states[node] = state
            if reason := disobeys(record, state, self._clock()):
                found[node] = self.left_alone[node] = reason
        return found

    async def _expectations(self, orders: CapOrders, nodes: Iterable[str], cap_w: int) -> AsyncIterator[str]:
        """Yield what the caps are expected to bring at full load."""
        async for node, state in self._read(orders, nodes):
            if isinstance(state, DeviceError):
                continue
            self._states[node] = state
            hardware, node_class = self._site().by_name[node].hardware, self._site().node_class(node)
            full_w = node_class.running_w(1.0) if node_class and hardware.cap_by == "bmc" else state.most_w
            if full_w is None or node_class is None or hardware.cap_curve is None:
                yield f"hardware {hardware.name}: without cap_curve and node_class the slowdown of jobs is not known"
                continue
            known = replace(self._cappable(node, replace(state, draw_w=full_w)), draw_w=node_class.running_w(1.0))
            cap = node_cap.make_cap(known, cap_w)
            gain = node_cap.cap_gain(known, cap, rest_w=node_class.idle_w)
            slowdown = f"{cap.slowdown[0]:.0%} to {cap.slowdown[1]:.0%}" if cap.slowdown else "more than was measured"
            refusal = f"; {gain.refusal}" if gain and gain.refusal else ""
            yield f"hardware {hardware.name}: at full load jobs slow down by {slowdown}{refusal}"

    def _cappable(self, node: str, state: CapState, saved_w: float | None = None) -> node_cap.CappableNode:
        hardware, node_class = self._site().by_name[node].hardware, self._site().node_class(node)
        draw_w, brought_w = state.draw_w or 0.0, 0.0
        if saved_w is not None and (record := self.records.by_node.get(node)) is not None:
            capped_w = min(draw_w, record.cap_w)
            draw_w = record.cap_w + saved_w
            brought_w = draw_w - capped_w
        # A BMC cannot lower what the node draws idle; processors and GPUs are capped as a whole.
        idle_w = node_class.idle_w if node_class and hardware.cap_by == "bmc" else 0.0
        curve = node_cap.cap_curve_named(hardware.cap_curve) if hardware.cap_curve else None
        offset_w = min(idle_w, draw_w)
        return node_cap.CappableNode(
            node, draw_w, draw_w - offset_w, curve, state.least_w, state.most_w, offset_w=offset_w, saved_w=brought_w
        )

    async def _read(self, orders: CapOrders, nodes: Iterable[str]) -> AsyncIterator[tuple[str, CapState | DeviceError]]:
        async def read(node: str) -> CapState:
            try:
                return await orders.devices.read(node)
            except BadInput as problem:
                raise DeviceError(str(problem), hint=problem.hint) from None

        reads = {node: read(node) for node in nodes}
        async for node, state in iterate_completed(reads, timeout_s=orders.devices.timeout_s):
            yield node, state

    def _status(self, record: CapRecord) -> CapStatus:
        state, machine = self._states.get(record.node), self._site().by_name.get(record.node)
        return CapStatus(
            node=record.node,
            device=machine.hardware.cap_by or "" if machine else "",
            cap_w=record.cap_w,
            limit_w=state.limit_w if state else None,
            draw_w=state.draw_w if state else None,
            by=record.by,
            reason="; ".join(text for text in (record.reason, record.problem) if text),
            until_unix_s=record.until_unix_s,
        )


def outcome_text(outcome: Outcome | Refusal) -> str:
    """Return why an order was not carried out, "" if it was."""
    if isinstance(outcome, Refusal):
        return f"{outcome.message}{f'; {outcome.hint}' if outcome.hint else ''}"
    return "" if outcome.result == DONE else outcome.message


def disobeys(record: CapRecord, state: CapState, now_unix_s: float) -> str:
    """Return how a device does not obey its cap, "" if it does, or if it is too early to tell."""
    if now_unix_s - record.since_unix_s < SETTLED_S:
        return ""
    if state.limit_w is None or state.limit_w > record.cap_w + OBEYS_WITHIN_W:
        limit = "no limit" if state.limit_w is None else f"a limit of {state.limit_w:.0f} W"
        return f"was capped to {record.cap_w} W, and has {limit}: something else has changed it"
    if state.draw_w is not None and state.draw_w > OBEYS_WITHIN * record.cap_w + OBEYS_WITHIN_W:
        return f"accepts a cap of {record.cap_w} W and draws {state.draw_w:.0f} W: the cap has no effect"
    return ""


def _lines(texts: Mapping[str, str], otherwise: str) -> list[str]:
    """Return a line for each text with its nodes."""
    return [
        f"{fold(node for node in texts if texts[node] == text)}: {text or otherwise}"
        for text in dict.fromkeys(texts.values())
    ]

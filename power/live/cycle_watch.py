"""The watch over a node's whole cycle: closed to jobs, off, powered down in the scheduler, woken by it, up, open again.

What a scheduler's configuration promises is proven by one node before others follow. The first cycle of a site is that
of the node that an admin names with `offpeak check --cycle`, and a job wakes the node. The scheduler may begin anew,
fail over, or get other settings: then the next node that goes to sleep is watched, and the agent itself has it woken.
A cycle that fails by the scheduler takes the proof away: the nodes that are off are woken by their BMCs. The watch is
kept in the ledger. An agent that was ended in the middle goes on with it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from offpeak.display import duration_text
from offpeak.door.effect import ADMIN
from offpeak.machines.node_sets import fold
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.orders import PowerState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.lifecycle.decisions import describe_fault
from offpeak.power.live.observe import ObservedNode
from offpeak.text import counted

UNABLE_S = 180
"""So long the scheduler's power saving may be off before the nodes that sleep are woken by their BMCs."""
FIRST_PAUSE_S = 600
"""After a fault of the scheduler no node sleeps for so long; the pause doubles up to a day."""
MOST_REFUSALS = 3
"""The door refuses orders that come too fast. After this many refusals the cycle has failed."""
HINT = "`offpeak check --cycle {}`, while the node is idle"
FAULT_HINT = "under Slurm see SuspendProgram, ResumeProgram and the log of slurmctld; then `offpeak check --cycle {}`"


class CycleStep(StrEnum):
    """A state that a node reaches in its cycle."""

    CLOSED = "closed to jobs"
    OFF = "off"
    POWERED_DOWN = "powered down in the scheduler"
    WOKEN = "woken by the scheduler"
    UP = "up"
    OPEN = "open to jobs"


STEPS = tuple(CycleStep)
BOUND_S = {
    CycleStep.CLOSED: 120,
    CycleStep.OFF: 1800,
    CycleStep.POWERED_DOWN: 600,
    CycleStep.WOKEN: 600,
    CycleStep.UP: HOUR_S,
    CycleStep.OPEN: 600,
}
"""A step that takes longer has failed. The resume time-out of the scheduler ends the wait for a boot earlier."""


@dataclass(frozen=True, slots=True)
class CycleWatch:
    """The proof that nodes go through whole cycles, and the cycle that is under way or was the last one.

    `terms` name the scheduler, its controller and its settings of power saving for which the proof counts. `is_first`:
    no node of the site has gone through a cycle. The cycle of `node` was ordered by `by` at `begun_s`; `reached` are
    its steps. All times are Unix seconds. `problem` is why it has failed. After each of the `failures` by the scheduler
    in a row no node sleeps until `next_s`, and the nodes in `off` are woken. `unable_since_s`: since when the power
    saving of the scheduler is off, 0 if it is on. `report` is that of the last cycle that succeeded.
    """

    is_proven: bool = True
    is_first: bool = False
    terms: str = ""
    node: str = ""
    by: str = ""
    begun_s: int = 0
    reached: tuple[tuple[CycleStep, int], ...] = ()
    problem: str = ""
    failures: int = 0
    next_s: int = 0
    off: tuple[str, ...] = ()
    unable_since_s: int = 0
    report: str = ""

    @property
    def next_step(self) -> CycleStep | None:
        """The step that is not reached yet, None without a cycle under way."""
        return STEPS[len(self.reached)] if self.node and not self.problem and len(self.reached) < len(STEPS) else None

    @property
    def since_s(self) -> int:
        """When the last step was reached."""
        return self.reached[-1][1] if self.reached else self.begun_s

    @property
    def is_by_admin(self) -> bool:
        """Whether an admin named the node; then a job wakes it."""
        return self.by.startswith(ADMIN)

    @property
    def must_sleep(self) -> bool:
        """Whether the node has to be put to sleep for its cycle."""
        return self.is_by_admin and self.next_step in (CycleStep.CLOSED, CycleStep.OFF)

    @property
    def must_wake(self) -> bool:
        """Whether the agent has the scheduler wake the node: for its cycle, or because it has failed."""
        if self.problem:
            return not self.is_proven and bool(self.node)
        return not self.is_by_admin and self.next_step in (CycleStep.WOKEN, CycleStep.UP, CycleStep.OPEN)

    def begin(self, node: str, by: str, now_s: int) -> "CycleWatch":
        """Return the watch that begins with this node."""
        return replace(self, node=node, by=by, begun_s=now_s, reached=(), problem="", next_s=0)

    def reach(self, step: CycleStep, now_s: int) -> "CycleWatch":
        """Return the watch with one step more."""
        return replace(self, reached=(*self.reached, (step, now_s)))

    def shifted(self, by_s: int) -> "CycleWatch":
        """Return the watch after the clock was set forward by so much."""
        return replace(
            self,
            begun_s=self.begun_s + by_s,
            reached=tuple((step, at_s + by_s) for step, at_s in self.reached),
            next_s=self.next_s and self.next_s + by_s,
            unable_since_s=self.unable_since_s and self.unable_since_s + by_s,
        )

    def count_most(self, most: int, now_s: int, *, is_watched: bool, is_capped: bool) -> int:
        """Return how many of `most` nodes may be on their way to sleep. A cap on power waits for a site's first cycle.

        `is_watched`: cycles are watched to their end, see `WatchFacts.terms`.
        """
        if now_s < self.next_s or self.unable_since_s or (is_watched and self.is_first and not self.is_proven):
            return 0
        if self.is_proven or is_capped:
            return most
        return 0 if is_watched and self.next_step else 1


class WatchFacts(NamedTuple):
    """What a step of the watch rests on, beside the nodes.

    `terms` is None where no cycle is watched to its end: the scheduler wakes no nodes by itself, or no node is switched
    off in this mode. `unable`: why the scheduler's power saving is off, "" if it is on. It has `refused` to power these
    nodes, each with its message, and does not count the nodes in `untaken`, which are off, as powered down. The nodes
    in `taken` were among these before, and count as powered down now. `was_away`: no agent has looked at the watched
    node since the last step.
    """

    now_s: int
    terms: str | None = None
    unable: str = ""
    refused: Mapping[str, str] = {}
    untaken: Collection[str] = ()
    taken: Collection[str] = ()
    was_away: bool = False


def follow_cycle(watch: CycleWatch, nodes: Mapping[str, ObservedNode], facts: WatchFacts) -> CycleWatch:
    """Return the watch after this observation of all nodes. Pure."""
    if facts.terms is not None and facts.terms != watch.terms:
        watch = _begin_anew(watch, facts.terms)
    since_s = (watch.unable_since_s or facts.now_s) if facts.unable else 0
    watch = replace(watch, unable_since_s=since_s)
    off = tuple(name for name, node in nodes.items() if node.is_off_by_us)
    if facts.now_s >= watch.next_s and (fault := _find_fault(watch, nodes, facts)):
        pause_s = min(FIRST_PAUSE_S * 2**watch.failures, DAY_S)
        failures, next_s = watch.failures + 1, facts.now_s + pause_s
        return replace(watch, is_proven=False, problem=fault, off=off, failures=failures, next_s=next_s)
    if watch.failures:
        watch = replace(watch, off=off)
    if facts.terms is None:
        # No cycle is watched to its end: a node that counts as powered down is enough.
        sleepers = any(node.is_asleep and node.node.power is PowerState.OFF for node in nodes.values())
        if watch.is_proven or not (facts.taken or (sleepers and not watch.failures)):
            return watch
        return CycleWatch(is_first=watch.is_first, unable_since_s=watch.unable_since_s)
    return _advance(watch, nodes, facts) if watch.next_step else watch


def _begin_anew(watch: CycleWatch, terms: str) -> CycleWatch:
    """Return the watch without a proof. A cycle of an admin that is under way has failed, another one is forgotten."""
    watch = replace(watch, terms=terms, is_proven=False, failures=0, next_s=0, off=())
    if watch.is_by_admin and watch.next_step:
        # The first round after it was loaded may name the terms for the first time.
        problem = "" if watch.next_step is CycleStep.CLOSED else "the scheduler began anew, or its settings changed"
        return replace(watch, problem=problem)
    return replace(watch, node="", by="", reached=(), problem="")


def _find_fault(watch: CycleWatch, nodes: Mapping[str, ObservedNode], facts: WatchFacts) -> str:
    """Return how the scheduler fails to take part in sleep, "" if it does not."""
    if watch.unable_since_s and facts.now_s - watch.unable_since_s > UNABLE_S:
        return facts.unable
    for name in facts.untaken:
        return f"it does not count {name}, which went off, as powered down"
    for name, message in facts.refused.items():
        return f"it refuses {message} ({name})"
    node = nodes.get(watch.node)
    if node is None or watch.next_step is not CycleStep.WOKEN:
        return ""
    is_late = facts.now_s - watch.since_s > BOUND_S[CycleStep.WOKEN]
    if is_late and not watch.is_by_admin:
        return f"it does not wake {watch.node}"
    if node.is_on and node.node.power is PowerState.ON and not facts.was_away:
        return f"{watch.node} came up, and the scheduler did not call the program that wakes nodes"
    return ""


def _advance(watch: CycleWatch, nodes: Mapping[str, ObservedNode], facts: WatchFacts) -> CycleWatch:
    """Return the watch with the steps that the node has reached, or with the reason why its cycle has ended."""
    node = nodes.get(watch.node)
    while node is not None and (step := watch.next_step) and _has_reached(node, step):
        watch = watch.reach(step, facts.now_s)
    if watch.next_step is None:
        return replace(watch, is_proven=True, is_first=False, failures=0, next_s=0, off=(), report=_report(watch))
    why = "the scheduler does not show it" if node is None else _find_end(node, watch, facts)
    if not why:
        return watch
    # A node that a job needs first, or that does not go off, says nothing about the scheduler: the next one is watched.
    return replace(watch, problem=why) if watch.is_by_admin else replace(watch, node="", by="", reached=())


def _has_reached(node: ObservedNode, step: CycleStep) -> bool:
    scheduler = node.node
    match step:
        case CycleStep.CLOSED:
            return scheduler.closed_by_us or node.is_asleep
        case CycleStep.OFF:
            return node.is_asleep
        case CycleStep.POWERED_DOWN:
            return scheduler.power is PowerState.POWERING_ON or (node.is_asleep and scheduler.power is PowerState.OFF)
        case CycleStep.WOKEN:
            return scheduler.power is PowerState.POWERING_ON
        case CycleStep.UP:
            return node.is_on
        case CycleStep.OPEN:
            is_up = node.is_on and scheduler.power is PowerState.ON and scheduler.responds and not scheduler.failed
            return is_up and not scheduler.closed and scheduler.use is not NodeUse.UNKNOWN


def _find_end(node: ObservedNode, watch: CycleWatch, facts: WatchFacts) -> str:
    """Return why the cycle has failed, "" while it may still succeed."""
    step, record = watch.next_step, node.record
    if step is CycleStep.WOKEN and node.is_on and facts.was_away:
        return "it was woken while the agent was down"
    if step in (CycleStep.CLOSED, CycleStep.OFF) and node.node.use is NodeUse.USED:
        return "a job got the node first"
    if record is not None and (fault := describe_fault(record)):
        return fault
    if record is not None and record.attempts.refusals >= MOST_REFUSALS and record.attempts.refusal is not None:
        return record.attempts.refusal.message
    if step is CycleStep.UP and node.node.failed:
        return "it did not come up within the time that the scheduler allows"
    if step is None or facts.now_s - watch.since_s <= BOUND_S[step]:
        return ""
    if step is CycleStep.WOKEN:
        return f"no job for it came within {duration_text(BOUND_S[step])}"
    return f"it was not {step} within {duration_text(BOUND_S[step])}"


class CycleText(NamedTuple):
    """What is to say about the watch. `is_problem`: nodes that could sleep do not."""

    text: str
    hint: str = ""
    is_problem: bool = False


def describe_cycle(watch: CycleWatch) -> CycleText:
    """Return the state of the watch in the words of all commands, the page and the log."""
    if watch.failures and watch.problem:
        are = f"{counted(len(watch.off), 'node')} {'is' if len(watch.off) == 1 else 'are'}"
        left = f"{are} off that the scheduler cannot wake: {fold(watch.off)}: " if watch.off else ""
        then = "; woken by their BMCs" if watch.off else ""
        text = f"{left}{watch.problem}{then}; no node is put to sleep for now"
        return CycleText(text, FAULT_HINT.format(watch.node or "NODE"), True)
    if watch.next_step:
        reached = f", {watch.reached[-1][0]}" if watch.reached else ""
        return CycleText(f"{watch.node} goes through a whole cycle{reached}; next: {watch.next_step}")
    if watch.problem:
        alone = "" if watch.is_proven else "; no node is put to sleep before a cycle has succeeded"
        text = f"{watch.node} did not go through a whole cycle: {watch.problem}{alone}"
        return CycleText(text, HINT.format(watch.node), True)
    if watch.is_proven:
        return CycleText(watch.report)
    if watch.is_first and watch.terms:
        text = "no node is put to sleep before one has gone through a whole cycle: closed, off, woken by a job, open"
        return CycleText(text, HINT.format("NODE"), True)
    text = "the next node that sleeps goes through a whole cycle alone: the scheduler began anew, or has other settings"
    return CycleText(text if watch.terms else "")


def _report(watch: CycleWatch) -> str:
    """Return the report of a cycle that has succeeded."""
    at = datetime.fromtimestamp(watch.since_s).astimezone()
    steps = ", ".join(f"{step} after {duration_text(at_s - watch.begun_s)}" for step, at_s in watch.reached)
    by = f" for {watch.by}" if watch.is_by_admin else ""
    return f"{watch.node} went through a whole cycle on {at:%Y-%m-%d %H:%M}{by}: {steps}; {watch.terms}"


def watch_to_json(watch: CycleWatch) -> dict[str, Any]:
    """Return the watch as JSON objects and lists, in the format of `parse_watch`."""
    return _watch_type().dump_python(watch, mode="json")  # type: ignore[no-any-return]


def parse_watch(saved: object) -> CycleWatch:
    """Return the watch that `watch_to_json` returned. Raises ValueError for anything else."""
    return _watch_type().validate_python(saved)  # type: ignore[no-any-return]


@cache
def _watch_type() -> Any:
    # The agent's clients start without pydantic, which is slow to import.
    from pydantic import TypeAdapter

    return TypeAdapter(CycleWatch)

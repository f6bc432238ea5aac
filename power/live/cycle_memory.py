"""What the power loop hands from one cycle to the next: since when a node idles, when it woke, whether it leaves.

If the memory is lost, the loop only waits longer; it does nothing wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offpeak.door.effect import US
from offpeak.model.constants import DAY_S
from offpeak.model.node_states import ACTIVE, FAILED
from offpeak.model.orders import NodeOrder
from plugin.capacity.need import NeedRecord
from plugin.capacity.port import CapacityTargets
from plugin.scheduler.node import OURS, Node, NodeUse
from power.interlocks.rate_limits import PAUSE_S
from power.lifecycle.node_record import ASLEEP, NodeRecord


@dataclass(frozen=True, slots=True)
class SleepInProgress:
    """A node that is on its way to sleep: since when (Unix seconds), by which order, and why."""

    since_s: int
    order: NodeOrder
    why: str


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What is known of a node besides what is seen; times are Unix seconds.

    `up`: jobs could run there a cycle ago. `woken_s`: when it came up last, 0 where nobody knows. `slept_s`: when it
    fell asleep within the last day, and before that the last time. `rest_until_s`: until then it is not put to sleep,
    since the last try was refused or failed. `why` was said of it last.
    """

    up: bool
    idle_since_s: int
    woken_s: int = 0
    slept_s: tuple[int, ...] = ()
    leaving: SleepInProgress | None = None
    rest_until_s: int = 0
    why: str = ""


@dataclass(frozen=True)
class PoolMemory:
    """What a policy, by its name, decided for a pool and when, and what a forecast has learned."""

    policy: str
    decided_s: int
    targets: CapacityTargets
    needs: NeedRecord | None = None


@dataclass(frozen=True)
class PowerMemory:
    """Nodes by their names, pools by theirs."""

    nodes: Mapping[str, NodeMemory] = field(default_factory=dict)
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)


LONGEST_LEAVE_S = 1800
"""A node that is not asleep so long after it was closed is let in again."""

REST_S = 600
"""So long a node stays up whose sleep was refused or failed."""

MOST_REFUSALS = 3
"""The door refuses what comes too fast; who is refused so often is not waited for."""


def update_node_memory(
    node: Node, record: NodeRecord | None, before: NodeMemory | None, state: int, now_s: int
) -> NodeMemory:
    """Return what is known of the node now; `state` is how it stands in its pool."""
    up = state == ACTIVE
    if before is None:
        before = NodeMemory(
            up, _idle_since_s(node, now_s), node.boot_s or 0, leaving=_find_interrupted_sleep(node, record, now_s)
        )
    woken_s = now_s if up and not before.up else max(before.woken_s, node.boot_s or 0)
    was_up = before.up if state == FAILED else up
    # Earlier the door lets nobody switch it off, and a node that waits for that is closed to jobs in vain.
    rest_until_s = max(before.rest_until_s, now_s + int(PAUSE_S)) if up and not before.up else before.rest_until_s
    memory = replace(
        before, up=was_up, woken_s=woken_s, slept_s=_keep_one_day(before.slept_s, now_s), rest_until_s=rest_until_s
    )
    if node.use is not NodeUse.FREE:
        memory = replace(memory, idle_since_s=now_s)
    elif node.idle_since_s is not None:
        memory = replace(memory, idle_since_s=max(min(node.idle_since_s, now_s), woken_s))
    return _update_sleep_in_progress(node, record, memory, now_s)


def _idle_since_s(node: Node, now_s: int) -> int:
    return now_s if node.idle_since_s is None else node.idle_since_s


def _find_interrupted_sleep(node: Node, record: NodeRecord | None, now_s: int) -> SleepInProgress | None:
    """Return the leave of a node that an agent has closed and told to sleep, and was killed before that was seen."""
    sent = None if record is None else record.sent
    if sent is None or sent.order is NodeOrder.ON or sent.by != US or not node.closed_by_us:
        return None
    return SleepInProgress(now_s, sent.order, node.reason.removeprefix(f"{OURS}: "))


def _keep_one_day(slept_s: tuple[int, ...], now_s: int) -> tuple[int, ...]:
    """Return the times within a day, or the last one."""
    return tuple(at_s for at_s in slept_s if now_s - at_s < DAY_S) or slept_s[-1:]


def _update_sleep_in_progress(node: Node, record: NodeRecord | None, memory: NodeMemory, now_s: int) -> NodeMemory:
    """Return the memory of a node that was to leave: it has, it cannot, or it still does."""
    leaving = memory.leaving
    if leaving is None or record is None:
        return memory if leaving is None else replace(memory, leaving=None)
    if record.observed.state in ASLEEP:
        return replace(memory, leaving=None, slept_s=(*memory.slept_s, now_s))
    attempts = record.attempts
    failed = record.fault is not None or attempts.tries > 0 or attempts.refusals >= MOST_REFUSALS
    if failed or now_s - leaving.since_s > LONGEST_LEAVE_S:
        return replace(memory, leaving=None, rest_until_s=now_s + REST_S)
    is_taken = node.use is not NodeUse.FREE or (node.closed and not node.closed_by_us) or node.reserved
    return replace(memory, leaving=None) if is_taken else memory

"""Orders to the scheduler: the one place that changes its jobs and nodes, through a door of its own."""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakValueDictionary

from offpeak.door.door import Confirm, Door, Guard, Limit, SharedCall
from offpeak.door.effect import AGENT, Effect, Hold, ModeOf, Outcome, Refusal
from offpeak.door.journal import Journal
from offpeak.errors import ListRefused, OffpeakError, OrderTooLate, SchedulerError
from offpeak.model.orders import NodeChange, QueueChange
from offpeak.plugin.scheduler.port import Scheduler
from offpeak.power.interlocks.preconditions import KEPT_AWAKE, refuse_held, refuse_kept_awake, require_opt_in
from offpeak.process import guarded_orders

QUEUE = "queue of "
OWN_POLICY = "own_policy"
"""The rule that keeps the order of a policy from outside in shadow."""

ALLOW_OWN_POLICIES = "set allow_own_policies = true below [agent] once its records have convinced you"
UNDOES = frozenset({NodeChange.OPEN, NodeChange.RESUME})
"""Changes that only return a node to jobs are also made for nodes that were just opted out."""

NodesCall = SharedCall[tuple[Effect, Guard], dict[str, OffpeakError]]
AT_ONCE, MOST_NODES = 8, 500


@dataclass(frozen=True)
class SchedulerOrderResult:
    """The outcome of an order, and the changes that the scheduler rejected, by job or node."""

    answer: Outcome | Refusal
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the scheduler has carried out the order."""
        return isinstance(self.answer, Outcome) and self.answer.result == "done"


class SchedulerOrders:
    """Sends orders to a scheduler through its own door. Calls take as long as the scheduler does."""

    def __init__(self, door: Door, scheduler: Scheduler) -> None:
        self.door, self._scheduler = door, scheduler
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._changes = WeakValueDictionary[tuple[str, ...], NodesCall]()

    async def rank(
        self, partition: str, values: Mapping[str, int], *, why: str, by: str = AGENT
    ) -> SchedulerOrderResult:
        """Reorder the jobs of a partition, or of several partitions, separated by commas."""
        return await self._let(partition, QueueChange.RANK, values, partial(self._scheduler.rank, values), why, by)

    async def defer(
        self, partition: str, begin_s: Mapping[str, int], *, why: str, by: str = AGENT
    ) -> SchedulerOrderResult:
        """Set the earliest start times of jobs."""
        return await self._let(partition, QueueChange.DEFER, begin_s, partial(self._scheduler.defer, begin_s), why, by)

    async def signal(self, partition: str, signals: Mapping[str, str], *, why: str) -> SchedulerOrderResult:
        """Ask running jobs for a checkpoint."""
        tell = partial(self._scheduler.signal, signals)
        return await self._let(partition, QueueChange.CHECKPOINT, signals, tell, why)

    async def requeue(self, partition: str, names: Sequence[str], *, why: str) -> SchedulerOrderResult:
        """Put running jobs back into the queue."""
        return await self._let(partition, QueueChange.REQUEUE, names, partial(self._scheduler.requeue, names), why)

    async def start_cycle(self, partition: str, jobs: Sequence[str], *, why: str) -> SchedulerOrderResult:
        """Let the scheduler look for nodes for these jobs."""
        return await self._let(partition, QueueChange.CYCLE, jobs, partial(self._scheduler.start_cycle, jobs), why)

    async def notify(
        self, partition: str, comments: Mapping[str, str], *, why: str, by: str = AGENT
    ) -> SchedulerOrderResult:
        """Tell jobs' owners."""
        tell = partial(self._scheduler.notify, comments)
        return await self._let(partition, QueueChange.NOTIFY, comments, tell, why, by)

    async def give_back(
        self, partition: str, values: Mapping[str, int], begin_s: Mapping[str, int], *, why: str, by: str = AGENT
    ) -> SchedulerOrderResult:
        """Restore the original order and begin times of jobs."""

        def undo() -> dict[str, str]:
            return self._scheduler.rank(values) | self._scheduler.defer(begin_s)

        return await self._let(partition, QueueChange.RESTORE, {**values, **begin_s}, undo, why, by)

    async def change_node(self, node: str, change: NodeChange, *, why: str, by: str = AGENT) -> SchedulerOrderResult:
        """Change the state of a node in the scheduler, together with others for which the same is ordered."""
        effect = Effect(node, change, by, why)

        # Only a change that is one command for all its nodes is shared: the last check is just before it is sent.
        alike = (change, why) if self._scheduler.changes_lists else (change, why, node)

        async def act(confirm: Confirm) -> str:
            call = self._changes.get(alike) or NodesCall(partial(self._change_nodes, change, why), self._turn)
            self._changes[alike] = call
            failed = await call.join((effect, await confirm()))
            if node in failed:
                raise failed[node]
            return "accepted"

        return SchedulerOrderResult(await self.door.let_through_prepared(effect, act))

    def _change_nodes(
        self, change: NodeChange, reason: str, orders: Sequence[tuple[Effect, Guard]]
    ) -> dict[str, OffpeakError]:
        """Change the nodes and return why not. A long list, and one that is refused, is ordered in halves.

        Each part is checked just before it is sent. What was refused since it began to wait is too late: the door
        checks it again, unless a refused list had it, which may be carried out in part. An error counts for all left.
        """
        failed: dict[str, OffpeakError] = {}
        listed: dict[str, ListRefused] = {}
        parts = [orders]
        while parts:
            part = parts.pop()
            if len(part) > MOST_NODES:
                parts += _halves(part)
                continue
            failed |= {order[0].subject: late for order in part if (late := self._find_lateness(*order))}
            ready = [order for order in part if order[0].subject not in failed]
            nodes = [effect.subject for effect, _ in ready]
            try:
                # The scheduler reads the nodes first, which may take long.
                with guarded_orders(partial(self._require_all, ready)):
                    complaints = self._scheduler.change_nodes(nodes, change, reason=reason) if nodes else {}
                failed |= {node: SchedulerError(why) for node, why in complaints.items()}
            except ListRefused as refused:
                if len(nodes) == 1:
                    failed[nodes[0]] = refused
                else:
                    parts += _halves(ready)
                    listed |= dict.fromkeys(nodes, refused)
            except OffpeakError as problem:
                failed |= {effect.subject: problem for each in (ready, *parts) for effect, _ in each}
                break
        for node in [node for node in listed if isinstance(failed.get(node), OrderTooLate)]:
            failed[node] = SchedulerError(f"{listed[node]}, perhaps after it was carried out; {failed[node]}")
        return failed

    def _find_lateness(self, effect: Effect, guard: Guard) -> OrderTooLate | None:
        """Return why an order that was refused since it began to wait is too late: the door then checks it again."""
        try:
            self._require(effect, guard)
        except OrderTooLate as problem:
            return problem
        return None

    def _require(self, effect: Effect, guard: Guard) -> float:
        """Return for how long the order is allowed, or raise OrderTooLate."""
        allowed_s = guard()
        if refusal := self.door.predict_refusal(effect):
            raise OrderTooLate(refusal.message)
        return math.inf if allowed_s is None else allowed_s

    def _require_all(self, orders: Sequence[tuple[Effect, Guard]]) -> float:
        return min(self._require(*order) for order in orders)

    async def _let(
        self,
        partition: str,
        change: QueueChange,
        jobs: Collection[str],
        tell: Callable[[], dict[str, str]],
        why: str,
        by: str = AGENT,
    ) -> SchedulerOrderResult:
        failed: dict[str, str] = {}
        effect = Effect(f"{QUEUE}{partition}", change, by, why, (("jobs", len(jobs)),))

        async def act(confirm: Confirm) -> str:
            failed.update(await asyncio.to_thread(self._tell, tell, effect, await confirm()))
            return f"{len(failed)} were not changed" if failed else "accepted"

        return SchedulerOrderResult(await self.door.let_through_prepared(effect, act), failed)

    def _tell(self, tell: Callable[[], dict[str, str]], effect: Effect, guard: Guard) -> dict[str, str]:
        """Change the jobs, maybe by several commands; the door must not repeat the first of them."""
        given = 0

        def require() -> float:
            nonlocal given
            allowed_s = self._require(effect, guard)
            given += 1
            return allowed_s

        try:
            require()
            given = 0
            with guarded_orders(require):
                return tell()
        except OrderTooLate as late:
            if given:
                raise SchedulerError(f"{late}; a part of the jobs may have been changed") from late
            raise


def _halves(orders: Sequence[tuple[Effect, Guard]]) -> list[Sequence[tuple[Effect, Guard]]]:
    """Return the halves, the second one first: the last part is the next."""
    return [orders[len(orders) // 2 :], orders[: len(orders) // 2]]


def make_scheduler_door(
    journal: Journal,
    mode_of: ModeOf,
    clock: Callable[[], float],
    *,
    nodes: Collection[str],
    hold_of: Callable[[str], Hold | None],
    put_to_sleep: Callable[[str], bool] | None = None,
    may_rank: Callable[[], bool] = lambda: True,
    kept_awake: Callable[[str], str | None] = lambda _: None,
) -> Door:
    """Return a door for changes of opted-in nodes without a hold, and for queues by their mode.

    `kept_awake` returns which setting of the scheduler keeps a node up. `put_to_sleep` returns the nodes whose power
    the door to the hardware has removed; by default none. `may_rank` tells whether the policy of the queue may change
    its order.
    """
    limits = (
        (OWN_POLICY, _refuse_own_order(may_rank)),
        ("opted_in", _limit_nodes_only(require_opt_in(frozenset(nodes)))),
        ("held", _limit_nodes_only(refuse_held(hold_of, clock))),
        (KEPT_AWAKE, _limit_closing(refuse_kept_awake(kept_awake))),
    )
    return Door(mode_of, journal=journal, clock=clock, limits=limits, put_to_sleep=put_to_sleep)


def _refuse_own_order(may_rank: Callable[[], bool]) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if effect.order is not QueueChange.RANK or may_rank():
            return None
        message = f"{effect.subject}: the order of an own policy is only recorded, as in mode shadow"
        return Refusal(OWN_POLICY, message, ALLOW_OWN_POLICIES)

    return refuse


def find_partitions(effect: Effect) -> tuple[str, ...] | None:
    """Return the partitions whose queue an effect concerns, None for one that concerns a node."""
    if not effect.subject.startswith(QUEUE):
        return None
    return tuple(effect.subject.removeprefix(QUEUE).split(","))


def _limit_closing(limit: Limit) -> Limit:
    # A node that is off already must be reported as powered down.
    return lambda effect: limit(effect) if effect.order is NodeChange.CLOSE else None


def _limit_nodes_only(limit: Limit) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if find_partitions(effect) is not None or effect.order in UNDOES:
            return None
        return limit(effect)

    return refuse

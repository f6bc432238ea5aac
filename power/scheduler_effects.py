"""Orders to the scheduler: the one place that tells it anything, and hands that to the door."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from offpeak.door.door import Door, Limit
from offpeak.door.effect import TELLS, US, Effect, Hold, ModeOf, Outcome, Refusal
from offpeak.door.journal import Journal
from offpeak.errors import SchedulerError
from plugin.scheduler.port import NodeChange, Scheduler
from power.interlocks.held import held
from power.interlocks.opted_in import opted_in

QUEUE = "queue of "
RANK, DEFER, RESTORE = "rank", "defer", "restore"
UNDOES = frozenset({NodeChange.OPEN, NodeChange.RESUME})
"""What only gives a node back to jobs is done also for one that was just taken out of our hands."""


@dataclass(frozen=True)
class Answer:
    """What became of an order, and what the scheduler did not do of it, by job or node."""

    answer: Outcome | Refusal
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the scheduler was told."""
        return isinstance(self.answer, Outcome) and self.answer.result == "done"


class SchedulerOrders:
    """Tells a scheduler through a door of its own. Calls take as long as the scheduler does."""

    def __init__(self, door: Door, scheduler: Scheduler) -> None:
        self._door, self._scheduler = door, scheduler

    async def settle(self, node: str) -> None:
        """Wait until no change of the node is under way."""
        await self._door.settle(node)

    async def rank(self, partition: str, values: Mapping[str, int], *, why: str, by: str = US) -> Answer:
        """Put jobs of a partition, or of several with commas between, in another order."""
        return await self._let(_of_jobs(partition, RANK, values, why, by), lambda: self._scheduler.rank(values))

    async def defer(self, partition: str, begin_s: Mapping[str, int], *, why: str, by: str = US) -> Answer:
        """Let jobs start at their seconds at the earliest."""
        return await self._let(_of_jobs(partition, DEFER, begin_s, why, by), lambda: self._scheduler.defer(begin_s))

    async def tell(self, partition: str, comments: Mapping[str, str], *, why: str, by: str = US) -> Answer:
        """Tell jobs' owners."""
        return await self._let(_of_jobs(partition, TELLS, comments, why, by), lambda: self._scheduler.tell(comments))

    async def give_back(
        self, partition: str, values: Mapping[str, int], begin_s: Mapping[str, int], *, why: str, by: str = US
    ) -> Answer:
        """Give jobs the order and the begin that they had."""

        def undo() -> dict[str, str]:
            return self._scheduler.rank(values) | self._scheduler.defer(begin_s)

        return await self._let(_of_jobs(partition, RESTORE, {**values, **begin_s}, why, by), undo)

    async def change_node(self, node: str, change: NodeChange, *, why: str, by: str = US) -> Answer:
        """Tell the scheduler of a node."""
        effect = Effect(node, str(change), by, why)
        return await self._let(effect, lambda: self._scheduler.change_nodes((node,), change, reason=why))

    async def _let(self, effect: Effect, tell: Callable[[], dict[str, str]]) -> Answer:
        failed: dict[str, str] = {}

        async def act() -> str:
            failed.update(await asyncio.to_thread(tell))
            if effect.subject in failed:
                raise SchedulerError(failed[effect.subject])
            return f"{len(failed)} were not changed" if failed else "accepted"

        return Answer(await self._door.let_through(effect, act), failed)


def scheduler_door(
    journal: Journal,
    mode_of: ModeOf,
    clock: Callable[[], float],
    *,
    nodes: Collection[str],
    hold_of: Callable[[str], Hold | None],
    put_to_sleep: Callable[[str], bool] | None = None,
) -> Door:
    """Return a door that lets nodes be changed which were opted in and nobody holds, and queues by their mode.

    `put_to_sleep` says of which nodes the door to the hardware has taken the power; of none if not given.
    """
    limits = (("opted_in", _of_nodes(opted_in(frozenset(nodes)))), ("held", _of_nodes(held(hold_of, clock))))
    return Door(mode_of, journal=journal, clock=clock, limits=limits, put_to_sleep=put_to_sleep)


def partitions_of(effect: Effect) -> tuple[str, ...] | None:
    """Return the partitions whose queue an effect concerns, None for one that concerns a node."""
    if not effect.subject.startswith(QUEUE):
        return None
    return tuple(effect.subject.removeprefix(QUEUE).split(","))


def _of_jobs(partition: str, order: str, jobs: Mapping[str, object], why: str, by: str) -> Effect:
    return Effect(f"{QUEUE}{partition}", order, by, why, (("jobs", len(jobs)),))


def _of_nodes(limit: Limit) -> Limit:
    def refuse(effect: Effect) -> Refusal | None:
        if partitions_of(effect) is not None or effect.order in UNDOES:
            return None
        return limit(effect)

    return refuse

"""One round over all nodes: look, decide, hand what is due to the door, and take in what it answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from offpeak.door.effect import Effect, Outcome, Refusal
from power.drivers.sweep import as_they_come
from power.drivers.sweep import sweep as asked
from power.lifecycle.answered import with_sending
from power.lifecycle.decide import Lives, Rules, after_look, all_due, effect_of, silent_first
from power.lifecycle.due import Due
from power.lifecycle.events import Looked, Ordered
from power.lifecycle.life import NodeLife, Now, Word
from power.lifecycle.lookout import Lookout
from power.lifecycle.state_seen import needs_evidence
from power.lifecycle.step import step
from power.lifecycle.terms import Terms

AT_ONCE = 16
"""Orders that are under way at the same time."""

Door = Callable[[Effect, Callable[[], None]], Awaitable[Outcome | Refusal]]
"""Gives the order through the door, or is refused; calls the function directly before anything is sent."""


@dataclass(frozen=True)
class Means:
    """What rounds are made with. `publish` gets what was seen before the first order, for the door's rules look it up,
    and then every order directly before it is sent, and its answer: a round may be cut off at any time.

    The look takes at most `timeout_s`; who has not answered by then is unknown.
    """

    lookout: Lookout
    door: Door
    terms: Terms
    clock: Callable[[], Now]
    timeout_s: float
    publish: Callable[[Lives], None]


@dataclass(frozen=True)
class Swept:
    """What a round has come to: the lives after it, those whose face has changed, and what the door was asked."""

    lives: Lives
    changed: tuple[NodeLife, ...]
    answers: tuple[tuple[Effect, Outcome | Refusal], ...]


async def sweep(means: Means, lives: Lives, words: Mapping[str, Word]) -> Swept:
    """Return the lives after one round; `words` are the scheduler's. Nodes that were silent are asked first."""
    rules = Rules(means.lookout.machines, means.terms)
    looks = await look(means.lookout, lives, clock=means.clock, timeout_s=means.timeout_s)
    seen = after_look(lives, looks, words, means.clock(), rules)
    means.publish(seen)
    round_ = _Round(seen, rules, means)
    await round_.give_all()
    changed = tuple(life for node, life in round_.nodes.items() if face(life) != face(lives.nodes.get(node)))
    return Swept(Lives(round_.nodes, seen.times), changed, tuple(round_.answers))


async def look(lookout: Lookout, lives: Lives, *, clock: Callable[[], Now], timeout_s: float) -> dict[str, Looked]:
    """Return what is seen of every node; of those that may be in standby also what tells that."""
    drivers = {node: lookout.drivers[node] for node in silent_first(lives, lookout.drivers)}
    doubtful = [node for node, life in lives.nodes.items() if node in drivers and needs_evidence(life)]
    answers = asked(drivers, timeout_s=timeout_s, clock=lambda: clock().unix_s)
    evidence = _collected({node: lookout.evidence(node) for node in doubtful}, timeout_s)
    observed, told = await asyncio.gather(answers, evidence)
    return {node: Looked(each, *told.get(node, (None, None))) for node, each in observed.items()}


def face(life: NodeLife | None) -> tuple[object, ...]:
    """Return what of a life is worth a line in the ledger when it changes."""
    if life is None:
        return ()
    refusal = life.effort.refusal
    return life.seen.state, life.seen.by, life.wish, life.hold, life.fault, refusal and refusal.rule


class _Round:
    """Gives what is due, several at once, and publishes the lives before each order and after each answer."""

    def __init__(self, seen: Lives, rules: Rules, means: Means) -> None:
        self.nodes, self.answers = dict(seen.nodes), list[tuple[Effect, Outcome | Refusal]]()
        self._times, self._due = seen.times, all_due(seen, means.clock(), rules)
        self._terms = {life.node: rules.of(life.node, seen.times) for life, _ in self._due}
        self._means, self._turn = means, asyncio.Semaphore(AT_ONCE)

    async def give_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for life, each in self._due:
                group.create_task(self._give(life, each))

    async def _give(self, life: NodeLife, due: Due) -> None:
        async with self._turn:
            effect = effect_of(life, due, self._means.clock())
            answer = await self._means.door(
                effect, lambda: self._publish(with_sending(life, due.order, due.by, self._means.clock()))
            )
        self.answers.append((effect, answer))
        ordered = Ordered(due.order, due.way, due.by, answer)
        self._publish(step(life, ordered, self._means.clock(), self._terms[life.node]))

    def _publish(self, life: NodeLife) -> None:
        self.nodes[life.node] = life
        self._means.publish(Lives(dict(self.nodes), self._times))


async def _collected(
    calls: Mapping[str, Awaitable[tuple[bool | None, float | None]]], timeout_s: float
) -> dict[str, tuple[bool | None, float | None]]:
    found = {}
    async for node, told in as_they_come(calls, timeout_s=timeout_s):
        found[node] = told if isinstance(told, tuple) else (None, None)
    return found

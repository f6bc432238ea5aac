"""After a crash: what an order was begun for is looked at, written down, and never sent again blind."""

import asyncio
from collections.abc import Awaitable, Callable

from offpeak.door.effect import Outcome
from offpeak.door.journal import Intent, Journal
from power.interlocks.sighting import UNKNOWN, Sighting

UNHEARD = Outcome("interrupted", "the scheduler is read anew")

LookAt = Callable[[str], Awaitable[Sighting]]
"""Reads a node now; UNKNOWN where nobody can tell."""


async def reconcile(
    journal: Journal, look_at: LookAt, clock: Callable[[], float]
) -> tuple[tuple[Intent, Outcome], ...]:
    """Give every intent that has no outcome one, by what is seen of its node now, and return both; sends nothing.

    What the scheduler was to be told is read from the scheduler anyway, each time.

    What is wanted from then on follows from the sightings, as after any other sweep.
    """
    intents = journal.unfinished()
    nodes = tuple(dict.fromkeys(intent.effect.subject for intent in intents if intent.effect.is_to_node))
    seen = dict(zip(nodes, await asyncio.gather(*map(look_at, nodes)), strict=True))
    ends = tuple(
        (intent, found(seen[intent.effect.subject]) if intent.effect.is_to_node else UNHEARD) for intent in intents
    )
    for intent, outcome in ends:
        journal.write_outcome(intent.number, outcome, clock())
    return ends


def found(sighting: Sighting) -> Outcome:
    """Return the outcome of an order of which nobody knows whether it was sent."""
    state = "in an unknown state" if sighting.state == UNKNOWN else sighting.state
    return Outcome("interrupted", f"found {state} after a restart")

"""The lives of nodes over a restart: kept where they change, taken up again with what the ledger knows besides."""

import json
from collections.abc import Iterable

from pydantic import ValidationError

from offpeak.door.effect import Hold
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import NodeStateRecord
from power.agent.last_orders import last_orders, with_last_order
from power.lifecycle.decide import Lives
from power.lifecycle.learned_times import LearnedTimes, learned_from_json
from power.lifecycle.life import NodeLife, Now
from power.lifecycle.remember import from_json, to_json
from power.lifecycle.state_book import life_of
from power.lifecycle.sweep import face

LIFE, TIMES = "life of ", "times of nodes"


def remembered_lives(ledger: Ledger, nodes: Iterable[str], *, unix_s: float, monotonic_s: float) -> Lives:
    """Return the lives as they were left, else what is recorded of a node; CannotWrite, BadLedger."""
    recorded, holds, orders = ledger.latest(), ledger.holds(unix_s), last_orders(ledger, unix_s)
    kept, lives, now = ledger.all_remembered(LIFE), {}, Now(monotonic_s, unix_s)
    for node in nodes:
        life = _life(node, kept.get(LIFE + node), recorded.get(node), holds.get(node), monotonic_s)
        lives[node] = with_last_order(life, orders.get(node), now)
    return Lives(lives, _times(ledger.remembered(TIMES)))


def remember_lives(ledger: Ledger, before: Lives, after: Lives, *, monotonic_s: float) -> None:
    """Keep the lives that are worth it: those in which more has changed than when the node was last seen."""
    for node, life in after.nodes.items():
        old = before.nodes.get(node)
        if old is not life and (old is None or _kept(old) != _kept(life)):
            ledger.remember(LIFE + node, to_json(life, monotonic_s=monotonic_s))
    if after.times != before.times:
        ledger.remember(TIMES, json.dumps({name: times.to_json() for name, times in after.times.items()}))


def _kept(life: NodeLife) -> tuple[object, ...]:
    return (*face(life), life.effort.course, life.effort.tries, life.effort.step, life.sent, life.surprises)


def _life(
    node: str, kept: str | None, recorded: NodeStateRecord | None, hold: Hold | None, monotonic_s: float
) -> NodeLife:
    if kept is not None:
        try:
            return from_json(kept, monotonic_s=monotonic_s)
        except ValidationError:
            # Of another version of the program: the record is enough to begin with.
            pass
    return life_of(node, recorded, hold)


def _times(kept: str | None) -> dict[str, LearnedTimes]:
    try:
        return {name: learned_from_json(times) for name, times in json.loads(kept or "{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}

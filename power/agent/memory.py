"""The lives of nodes over a restart: kept where they change, taken up again with what the ledger knows besides."""

import json
from collections.abc import Iterable

from pydantic import ValidationError

from offpeak.door.effect import Hold
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import NodeStateRecord
from power.agent.last_orders import last_orders, with_last_order
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_context import MeasuredDurations, durations_from_json
from power.lifecycle.node_record import Instant, NodeRecord, record_from_json, record_to_json, restore_record
from power.lifecycle.sweep import ledger_fields

LIFE, TIMES = "life of ", "times of nodes"


def remembered_lives(ledger: Ledger, nodes: Iterable[str], *, unix_s: float, monotonic_s: float) -> NodeRecords:
    """Return the lives as they were left, else what is recorded of a node; CannotWrite, BadLedger."""
    recorded, holds, orders = ledger.latest(), ledger.holds(unix_s), last_orders(ledger, unix_s)
    kept, lives, now = ledger.all_remembered(LIFE), {}, Instant(monotonic_s, unix_s)
    for node in nodes:
        life = _life(node, kept.get(LIFE + node), recorded.get(node), holds.get(node), monotonic_s)
        lives[node] = with_last_order(life, orders.get(node), now)
    return NodeRecords(lives, _times(ledger.remembered(TIMES)))


def remember_lives(ledger: Ledger, before: NodeRecords, after: NodeRecords, *, monotonic_s: float) -> None:
    """Keep the lives that are worth it: those in which more has changed than when the node was last seen."""
    for node, life in after.nodes.items():
        old = before.nodes.get(node)
        if old is not life and (old is None or _kept(old) != _kept(life)):
            ledger.remember(LIFE + node, record_to_json(life, monotonic_s=monotonic_s))
    if after.times != before.times:
        ledger.remember(TIMES, json.dumps({name: times.to_json() for name, times in after.times.items()}))


def _kept(life: NodeRecord) -> tuple[object, ...]:
    return (*ledger_fields(life), life.effort.course, life.effort.tries, life.effort.step, life.sent, life.surprises)


def _life(
    node: str, kept: str | None, recorded: NodeStateRecord | None, hold: Hold | None, monotonic_s: float
) -> NodeRecord:
    if kept is not None:
        try:
            return record_from_json(kept, monotonic_s=monotonic_s)
        except ValidationError:
            # Of another version of the program: the record is enough to begin with.
            pass
    return restore_record(node, recorded, hold)


def _times(kept: str | None) -> dict[str, MeasuredDurations]:
    try:
        return {name: durations_from_json(times) for name, times in json.loads(kept or "{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}

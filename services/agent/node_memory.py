"""The records of nodes over a restart of the agent: saved when they change, loaded with what the ledger knows.

A run that was killed may have given orders without saving them in the node records; the ledger has every intent.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import ValidationError

from offpeak.door.effect import Hold
from offpeak.door.journal import Intent, IntentResult
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import NodeStateRecord
from offpeak.model.orders import NodeOrder
from power.lifecycle.decisions import NodeRecords
from power.lifecycle.node_context import MeasuredDurations, RetryPolicy, durations_from_json
from power.lifecycle.node_record import Instant, NodeRecord, SentOrder, record_from_json, record_to_json, restore_record
from power.lifecycle.sweep import ledger_fields
from power.live.node_steps import MAY_STILL_FOLLOW_S


def read_last_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to each node's hardware that may still have its effect; CannotWrite or BadLedger."""
    actions = sorted(ledger.recent(unix_s - RetryPolicy.late_s), key=lambda each: each.intent.number)
    return {each.intent.effect.subject: each.intent for each in actions if _may_have_effect(each)}


def _may_have_effect(done: IntentResult) -> bool:
    return done.intent.effect.is_to_node and done.may_have_been_sent


def read_last_sleep_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to sleep that each node may still follow, whatever was ordered after it; errors as above.

    What is written may have been sent, also by a program that was killed.
    """
    actions = sorted(ledger.recent(unix_s - MAY_STILL_FOLLOW_S), key=lambda each: each.intent.number)
    taken = (each.intent for each in actions if _may_have_effect(each))
    return {each.effect.subject: each for each in taken if each.effect.takes_power_away}


def add_last_order(life: NodeRecord, intent: Intent | None, now: Instant) -> NodeRecord:
    """Return the life with an order that is later than what was kept of it: what comes of that is nobody else's."""
    if intent is None or intent.at_unix_s <= life.observed.at_unix_s:
        return life
    effect, before = intent.effect, life.sent
    if not isinstance(effect.order, NodeOrder):
        return life
    if before is not None and (before.order, before.by) == (effect.order, effect.by):
        return life
    at_s = now.monotonic_s - max(0.0, now.unix_s - intent.at_unix_s)
    return replace(life, sent=SentOrder(effect.order, effect.by, at_s, life.observed.state, clear=False))


RECORD_KEY, TIMES_KEY = "life of ", "times of nodes"


def load_node_records(ledger: Ledger, nodes: Iterable[str], *, unix_s: float, monotonic_s: float) -> NodeRecords:
    """Return the lives as they were left, else what is recorded of a node; CannotWrite, BadLedger."""
    recorded, holds, orders = ledger.latest(), ledger.holds(unix_s), read_last_orders(ledger, unix_s)
    kept, lives, now = ledger.all_remembered(RECORD_KEY), {}, Instant(monotonic_s, unix_s)
    for node in nodes:
        life = _load_node_record(node, kept.get(RECORD_KEY + node), recorded.get(node), holds.get(node), monotonic_s)
        lives[node] = add_last_order(life, orders.get(node), now)
    return NodeRecords(lives, _parse_times(ledger.remembered(TIMES_KEY)))


def save_node_records(ledger: Ledger, before: NodeRecords, after: NodeRecords, *, monotonic_s: float) -> None:
    """Keep the lives that are worth it: those in which more has changed than when the node was last seen."""
    for node, life in after.nodes.items():
        old = before.nodes.get(node)
        if old is not life and (old is None or _saved_fields(old) != _saved_fields(life)):
            ledger.remember(RECORD_KEY + node, record_to_json(life, monotonic_s=monotonic_s))
    if after.times != before.times:
        ledger.remember(TIMES_KEY, json.dumps({name: times.to_json() for name, times in after.times.items()}))


def _saved_fields(life: NodeRecord) -> tuple[object, ...]:
    return (
        *ledger_fields(life),
        life.attempts.pending,
        life.attempts.tries,
        life.attempts.step,
        life.sent,
        life.surprises,
    )


def _load_node_record(
    node: str, kept: str | None, recorded: NodeStateRecord | None, hold: Hold | None, monotonic_s: float
) -> NodeRecord:
    if kept is not None:
        try:
            return record_from_json(kept, monotonic_s=monotonic_s)
        except ValidationError:
            # Of another version of the program: the record is enough to begin with.
            pass
    return restore_record(node, recorded, hold)


def _parse_times(kept: str | None) -> dict[str, MeasuredDurations]:
    try:
        return {name: durations_from_json(times) for name, times in json.loads(kept or "{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}

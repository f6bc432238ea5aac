"""Orders that a killed run has given without keeping them in the nodes' lives: the ledger has every intent."""

from collections.abc import Mapping
from dataclasses import replace

from offpeak.door.journal import Intent, IntentResult
from offpeak.ledger.ledger import Ledger
from power.drivers.port import Order
from power.lifecycle.node_context import RetryPolicy
from power.lifecycle.node_record import Instant, NodeRecord, SentOrder
from power.live.node_steps import MAY_STILL_FOLLOW_S


def last_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to each node's hardware that may still have its effect; CannotWrite or BadLedger."""
    actions = sorted(ledger.recent(unix_s - RetryPolicy.late_s), key=lambda each: each.intent.number)
    return {each.intent.effect.subject: each.intent for each in actions if _counts(each)}


def _counts(done: IntentResult) -> bool:
    return done.intent.effect.is_to_node and done.may_have_been_sent


def last_sleep_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to sleep that each node may still follow, whatever was ordered after it; errors as above.

    What is written may have been sent, also by a program that was killed.
    """
    actions = sorted(ledger.recent(unix_s - MAY_STILL_FOLLOW_S), key=lambda each: each.intent.number)
    taken = (each.intent for each in actions if _counts(each))
    return {each.effect.subject: each for each in taken if each.effect.takes_power_away}


def with_last_order(life: NodeRecord, intent: Intent | None, now: Instant) -> NodeRecord:
    """Return the life with an order that is later than what was kept of it: what comes of that is nobody else's."""
    if intent is None or intent.at_unix_s <= life.seen.at_unix_s:
        return life
    effect, before = intent.effect, life.sent
    if before is not None and (before.order, before.by) == (effect.order, effect.by):
        return life
    at_s = now.monotonic_s - max(0.0, now.unix_s - intent.at_unix_s)
    return replace(life, sent=SentOrder(Order(effect.order), effect.by, at_s, life.seen.state, clear=False))

"""Orders that a killed run has given without keeping them in the nodes' lives: the ledger has every intent."""

from collections.abc import Mapping
from dataclasses import replace

from offpeak.door.journal import Intent
from offpeak.ledger.ledger import Ledger
from power.drivers.port import Order
from power.lifecycle.life import NodeLife, Now, Sent
from power.lifecycle.terms import Conduct


def last_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to each node's hardware that may still have its effect; CannotWrite or BadLedger."""
    actions = sorted(ledger.recent(unix_s - Conduct.late_s), key=lambda each: each.intent.number)
    return {each.intent.effect.subject: each.intent for each in actions if each.intent.effect.is_to_node}


def with_last_order(life: NodeLife, intent: Intent | None, now: Now) -> NodeLife:
    """Return the life with an order that is later than what was kept of it: what comes of that is nobody else's."""
    if intent is None or intent.at_unix_s <= life.seen.at_unix_s:
        return life
    effect, before = intent.effect, life.sent
    if before is not None and (before.order, before.by) == (effect.order, effect.by):
        return life
    at_s = now.monotonic_s - max(0.0, now.unix_s - intent.at_unix_s)
    return replace(life, sent=Sent(Order(effect.order), effect.by, at_s, life.seen.state, clear=False))

"""The records of nodes over a restart of the agent: saved when they change, loaded with the intents of the ledger.

An agent that was killed may have given orders without saving them in the node records; the ledger has every intent.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from pydantic import ValidationError

from offpeak.door.journal import Intent, IntentResult
from offpeak.errors import OffpeakError
from offpeak.files import is_there
from offpeak.ledger.database import open_ledger, sqlite_file
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.marks import read_memory
from offpeak.machines.inventory import Inventory, InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeOrder
from offpeak.plugin.contract.rules import ManagedSite
from offpeak.plugin.queue_hook.facts import OFF
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_context import MeasuredDurations, durations_from_json
from offpeak.power.lifecycle.node_record import (
    Instant,
    NodeRecord,
    SentOrder,
    record_from_json,
    record_to_json,
    restore_record,
)
from offpeak.power.lifecycle.sweep import ledger_fields
from offpeak.power.lifecycle.transitions import BOOT
from offpeak.power.live.cycle_watch import CycleWatch, parse_watch
from offpeak.settings.agent import AgentSettings
from offpeak.settings.table import Settings

LATEST_EFFECT_S = DAY_S
"""The orders of so much time are read: nodes whose shutdown is delayed for longer are not closed any more."""


def read_last_orders(ledger: Ledger, unix_s: float) -> Mapping[str, Intent]:
    """Return the last order to each node's hardware that may still have its effect. Raises CannotWrite or BadLedger."""
    actions = sorted(ledger.recent(unix_s - LATEST_EFFECT_S), key=lambda action: action.intent.number)
    return {action.intent.effect.subject: action.intent for action in actions if _may_have_effect(action)}


def _may_have_effect(done: IntentResult) -> bool:
    return done.intent.effect.is_to_node and done.may_have_been_sent


def read_last_sleep_orders(ledger: Ledger, unix_s: float, *, within_s: float = LATEST_EFFECT_S) -> Mapping[str, Intent]:
    """Return the last order to sleep that each node may still follow, whatever was ordered after it; errors as above.

    A recorded order may have been sent, also by a program that was killed.
    """
    actions = sorted(ledger.recent(unix_s - within_s), key=lambda action: action.intent.number)
    intents = (action.intent for action in actions if _may_have_effect(action))
    return {intent.effect.subject: intent for intent in intents if intent.effect.takes_power_away}


def add_last_order(record: NodeRecord, intent: Intent | None, now: Instant) -> NodeRecord:
    """Return the record with the intent if that is later than the record: its effect is that of our order."""
    # A record of a later time than now is from before the clock was set back, and tells nothing about the intent.
    if intent is None or intent.at_unix_s <= record.observed.at_unix_s <= now.unix_s:
        return record
    effect, before = intent.effect, record.sent
    if not isinstance(effect.order, NodeOrder):
        return record
    if before is not None and (before.order, before.by) == (effect.order, effect.by):
        return record
    at_s = now.monotonic_s - max(0.0, now.unix_s - intent.at_unix_s)
    sent = SentOrder(effect.order, effect.by, at_s, record.observed.state, clear=False, at_unix_s=intent.at_unix_s)
    return replace(record, sent=sent)


RECORD_KEY, TIMES_KEY = "life of ", "times of nodes"


def load_node_records(ledger: Ledger, nodes: Iterable[str], *, unix_s: float, monotonic_s: float) -> NodeRecords:
    """Return the saved records, or records of the last states of nodes without one. Raises CannotWrite, BadLedger."""
    states, holds, orders = ledger.latest(), ledger.holds(unix_s), read_last_orders(ledger, unix_s)
    saved, records, now = ledger.all_remembered(RECORD_KEY), {}, Instant(monotonic_s, unix_s)
    for node in nodes:
        record, text = None, saved.get(RECORD_KEY + node)
        # If another version of the program has saved the record, the last state is enough to begin with.
        with suppress(ValidationError):
            record = None if text is None else record_from_json(text, monotonic_s=monotonic_s)
        record = record or restore_record(node, states.get(node), holds.get(node))
        records[node] = add_last_order(record, orders.get(node), now)
    return NodeRecords(records, _parse_times(ledger.remembered(TIMES_KEY)))


def save_node_records(ledger: Ledger, before: NodeRecords, after: NodeRecords, *, monotonic_s: float) -> None:
    """Save the records that have changed by more than the time of the last poll."""
    for node, record in after.nodes.items():
        old = before.nodes.get(node)
        if old is not record and (old is None or _saved_fields(old) != _saved_fields(record)):
            ledger.remember(RECORD_KEY + node, record_to_json(record, monotonic_s=monotonic_s))
    if after.times != before.times:
        ledger.remember(TIMES_KEY, json.dumps({name: times.to_json() for name, times in after.times.items()}))


def _saved_fields(record: NodeRecord) -> tuple[object, ...]:
    return (
        *ledger_fields(record),
        record.attempts.pending,
        record.attempts.tries,
        record.attempts.step,
        record.sent,
        record.surprises,
    )


def make_managed_site(
    agent: AgentSettings, machines: Iterable[InventoryNode], times: Mapping[str, MeasuredDurations]
) -> ManagedSite:
    """Return what the rules of the site's contract need of the nodes that may be switched: those of the settings."""
    switched = frozenset(expand(agent.nodes)) if agent.nodes else frozenset[str]()
    boots = {name: measured.seconds.get(BOOT, ()) for name, measured in times.items()}
    boots_s = {each.node: boots.get(each.hardware.name, ()) for each in machines if each.node in switched}
    may_delay = agent.queue != OFF and agent.longest_delay_s > 0
    return ManagedSite((), switched, boots_s, agent.wakes_per_min, agent.nodes_per_sweep, may_delay)


WATCH_KEY = "cycle of a node"


def read_watch(saved: str | None) -> CycleWatch | None:
    """Return the watch that the agent has saved, None without one, or for one of another version."""
    with suppress(ValueError):
        return parse_watch(json.loads(saved)) if saved else None
    return None


def read_saved_watch(url: str) -> CycleWatch | None:
    """Return the same for a command. Raises OffpeakError or OSError where the ledger cannot be read."""
    file = sqlite_file(url)
    if file and not is_there(file):
        return None
    with open_ledger(url) as connection:
        return read_watch(read_memory(connection, WATCH_KEY))


def read_managed_site(settings: Settings, inventory: Inventory) -> ManagedSite:
    """Return the same for a command: the boots that the agent has measured are in the ledger, if there is one."""
    file, times = sqlite_file(settings.ledger.url), {}
    # Whoever may not read the agent's folder gets the findings that need no measured boots.
    with suppress(OffpeakError, OSError):
        if not file or is_there(file):
            with open_ledger(settings.ledger.url) as connection:
                times = _parse_times(read_memory(connection, TIMES_KEY))
    return make_managed_site(settings.agent, inventory.machines, times)


def _parse_times(saved: str | None) -> dict[str, MeasuredDurations]:
    try:
        return {name: durations_from_json(times) for name, times in json.loads(saved or "{}").items()}
    except (ValueError, AttributeError, TypeError):
        return {}

"""What the rests of a day saved, from the states, readings and prices in the ledger."""

from collections.abc import Callable, Iterable, Iterator

from sqlalchemy import Connection

from offpeak.ledger.database import open_ledger
from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.node_energy import spans_energy
from offpeak.ledger.prices import mean_prices
from offpeak.ledger.records import states_in
from offpeak.ledger.rows import NodeStateRecord, SavingRecord
from offpeak.model.local_time import TimeRange
from offpeak.model.node_class import NodeClass
from power.accounts.rests import Rest, rests
from power.accounts.savings import RestUse, rest_energy_j, saving_of

ENOUGH = 0.9
"""A rest of which less was measured is taken to have drawn what its class does."""

ClassOf = Callable[[str], NodeClass | None]


def book_savings(url: str, span: TimeRange, nodes: Iterable[str], class_of: ClassOf) -> SavingRecord | None:
    """Return what these nodes saved in a time that is over; None for nothing, as of nodes without a class.

    It reads the ledger, all rests at once: an event loop calls it in a thread. BadLedger if that cannot be read,
    BadInput if the prices of that time are in two currencies.
    """
    named = sorted(nodes)
    if not named or span.until_unix_s <= span.from_unix_s:
        return None
    with open_ledger(url) as connection:
        states = [NodeStateRecord(**record) for record in states_in(connection, span, named)]
        return saving_of(span, _uses(connection, rests(states, span), class_of))


def _uses(connection: Connection, found: Iterable[Rest], class_of: ClassOf) -> Iterator[RestUse]:
    modelled = [each for rest in found if (each := _modelled(rest, class_of(rest.node))) is not None]
    spans = [TimeRange(rest.from_unix_s, rest.until_unix_s) for rest, _, _ in modelled]
    measured = spans_energy(connection, spans, [(rest.node,) for rest, _, _ in modelled])
    for (rest, modelled_j, idle_j), used, price in zip(modelled, measured, mean_prices(connection, spans), strict=True):
        measured_j = _measured_j(used.get(rest.node))
        energy_j = modelled_j if measured_j is None else measured_j
        yield RestUse(rest, energy_j, idle_j, measured_j is not None, price)


def _modelled(rest: Rest, node_class: NodeClass | None) -> tuple[Rest, float, float] | None:
    """Return the rest with what its class draws in it and idle [J]; None where that is not known."""
    energy_j = rest_energy_j(rest, node_class) if node_class else None
    return (rest, energy_j, node_class.idle_w * rest.length_s) if node_class and energy_j is not None else None


def _measured_j(used: EnergyUse | None) -> float | None:
    covered = (used.covered or 0.0) if used else 0.0
    return used.energy_j / covered if used and covered >= ENOUGH else None

"""What sleeping nodes saved, beside a cluster whose nodes are all on: over the time of their rests, and only that.

A rest saves what the node would have drawn idle, less what it drew on its way down, asleep, and on its way up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offpeak.ledger.energy_use import J_PER_MWH
from offpeak.ledger.prices import MeanPrice
from offpeak.ledger.rows import SavingRecord
from offpeak.model.local_time import TimeRange
from offpeak.model.node_class import NodeClass, SleepDepth
from offpeak.model.node_states import OFF, STANDBY
from offpeak.text import counted
from power.accounts.rests import Rest
from power.lifecycle.node_record import NodeState

BASELINE = "all nodes on"
DEPTH_OF = {NodeState.STANDBY: STANDBY, NodeState.OFF: OFF}


@dataclass(frozen=True)
class RestUse:
    """A rest, what the node drew in it and would have drawn idle [J], and the mean price of that time."""

    rest: Rest
    energy_j: float
    idle_j: float
    measured: bool
    price: MeanPrice


def rest_energy_j(rest: Rest, node_class: NodeClass) -> float | None:
    """Return what such a node draws over a rest; None if the class does not know the depth in which it slept."""
    depth = _deepest(rest, node_class)
    if depth is None:
        return None
    draw_w: Mapping[NodeState, float] = {
        NodeState.GOING_DOWN: depth.enter.power_w,
        NodeState.BOOTING: depth.leave.power_w,
    }
    return sum(draw_w.get(state, depth.power_w) * seconds for state, seconds in rest.seconds.items())


def saving_of(span: TimeRange, uses: Iterable[RestUse]) -> SavingRecord | None:
    """Return what the rests of a time came to, without money where one has no price; None for no rest at all."""
    each = tuple(uses)
    if not each:
        return None
    idle_j, energy_j = sum(use.idle_j for use in each), sum(use.energy_j for use in each)
    idle_cost, cost = _cost(each, [use.idle_j for use in each]), _cost(each, [use.energy_j for use in each])
    currency = each[0].price.currency if cost is not None else ""
    return SavingRecord(*_edges(span), BASELINE, idle_j, idle_cost, energy_j, cost, currency, _basis(each))


def _edges(span: TimeRange) -> tuple[float, float]:
    return span.from_unix_s, span.until_unix_s


def _deepest(rest: Rest, node_class: NodeClass) -> SleepDepth | None:
    slept = [depth for state, depth in DEPTH_OF.items() if state in rest.seconds]
    # A rest that midnight cut off before the node slept, or after: such nodes are mostly switched off.
    return node_class.find_depth(max(slept)) if slept else (node_class.depths[-1] if node_class.depths else None)


def _cost(uses: Iterable[RestUse], energies_j: Iterable[float]) -> float | None:
    pairs = list(zip(uses, energies_j, strict=True))
    if any(use.price.price_per_mwh is None for use, _ in pairs) or len({use.price.currency for use, _ in pairs}) > 1:
        return None
    return sum((use.price.price_per_mwh or 0.0) * energy_j for use, energy_j in pairs) / J_PER_MWH


def _basis(uses: tuple[RestUse, ...]) -> str:
    hours = sum(use.rest.length_s for use in uses) / 3600
    measured = sum(use.rest.length_s for use in uses if use.measured) / 3600 / hours if hours else 0.0
    nodes = counted(len({use.rest.node for use in uses}), "node")
    return f"{hours:.1f} h of rest of {nodes}; {measured:.0%} measured, else by node class; idle by node class"

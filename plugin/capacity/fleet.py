"""What a capacity policy has to know of a machine to be made for it."""

from dataclasses import dataclass, field

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class import NodeClass


def no_times() -> Int64:
    """Return the times of no prices."""
    return np.empty(0, dtype=np.int64)


def no_prices() -> Float64:
    """Return no prices."""
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Fleet:
    """Nodes of one class, their load, and the price of electricity where it is known.

    `load`: the share of all units that jobs use on average, 0..1. `price_per_mwh[i]` holds from `price_at_s[i]` on, in
    trace seconds, NaN where it is not known.
    """

    nodes: int
    units_per_node: int
    node_class: NodeClass
    load: float = 0.0
    price_at_s: Int64 = field(default_factory=no_times)
    price_per_mwh: Float64 = field(default_factory=no_prices)

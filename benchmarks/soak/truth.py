"""The true states of the devices of the room."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeTruth:
    """A node, the orders that reached its BMC so far, and the BMC's open sessions.

    `left_sessions` are those in which nothing came since the BMC was last ill: nobody could have closed them.
    """

    on: bool
    power_w: float
    energy_j: float
    orders: int
    sessions: int
    left_sessions: int


@dataclass(frozen=True)
class PduTruth:
    """What a PDU delivers, in all and by outlet."""

    power_w: float
    outlets: Mapping[str, float]


@dataclass(frozen=True)
class Truth:
    """All devices by their names."""

    nodes: Mapping[str, NodeTruth]
    pdus: Mapping[str, PduTruth]


def truth_of(reply: Mapping[str, Any]) -> Truth:
    """Parse a line of the room."""
    return Truth(
        {name: NodeTruth(**node) for name, node in reply["nodes"].items()},
        {name: PduTruth(**each) for name, each in reply["pdus"].items()},
    )

"""What stands in a virtual machine room, and where it listens."""

import ipaddress
from dataclasses import dataclass

from offpeak.errors import BadInput
from offpeak.model.node_class import NodeClass
from offpeak.model.node_states import OFF

OUTLETS = 24
"""Outlets of a virtual PDU, as of the model that it says it is."""


@dataclass(frozen=True)
class RoomPlan:
    """Nodes of a class, a BMC each with addresses from `bmc_host` up, a PDU a rack with addresses from `pdu_host` up.

    Time runs `clock_factor` times as fast as outside. The outlets deliver `loss_factor` times what nodes draw. `seed`
    is that of failures, which are as frequent as the class says. BadInput for a class that cannot be switched off, and
    for addresses that are not on loopback.
    """

    nodes: tuple[str, ...]
    node_class: NodeClass
    bmc_host: str = "127.0.40.1"
    bmc_port: int = 623
    pdu_host: str = "127.0.41.1"
    pdu_port: int = 1161
    clock_factor: float = 1.0
    loss_factor: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.node_class.find_depth(OFF) is None:
            hint = "name one that has [off], such as server"
            raise BadInput(f"{self.node_class.name}: nodes of this class cannot be switched off", hint=hint)
        _check_loopback(self.bmc_host, len(self.bmc_hosts))
        _check_loopback(self.pdu_host, len(self.pdu_hosts))

    @property
    def racks(self) -> tuple[tuple[str, ...], ...]:
        """The nodes rack by rack, as many as a PDU has outlets."""
        return tuple(self.nodes[at : at + OUTLETS] for at in range(0, len(self.nodes), OUTLETS))

    @property
    def bmc_hosts(self) -> tuple[str, ...]:
        """The addresses of the BMCs, in the order of the nodes."""
        return _addresses(self.bmc_host, len(self.nodes))

    @property
    def pdu_hosts(self) -> tuple[str, ...]:
        """The addresses of the PDUs, rack by rack."""
        return _addresses(self.pdu_host, len(self.racks))


def _addresses(first: str, count: int) -> tuple[str, ...]:
    try:
        start = ipaddress.IPv4Address(first)
        return tuple(str(start + number) for number in range(count))
    except ValueError:
        raise BadInput(f"{first!r} is no IPv4 address", hint="write it like 127.0.40.1") from None


def _check_loopback(first: str, count: int) -> None:
    if not all(ipaddress.IPv4Address(address).is_loopback for address in _addresses(first, count)):
        hint = "virtual hardware is open to whoever reaches it: give an address such as 127.0.40.1"
        raise BadInput(f"{first}: {count} addresses from there on are not all on loopback", hint=hint)

"""Where a BMC is and who logs in there: what the three ways of speaking IPMI take of the inventory."""

from dataclasses import dataclass

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import InventoryNode
from offpeak.text import did_you_mean

PORT = 623
PRIVILEGES = {"user": 2, "operator": 3, "admin": 4}
"""Levels by their number (IPMI v2.0, table 22-19). A node cannot be switched with less than operator."""


@dataclass(frozen=True)
class BmcAddress:
    """A BMC by host name or address and UDP port, with the login and what else a session there needs."""

    node: str
    host: str
    credential: Credential
    port: int = PORT
    cipher_suite: int = 17
    privilege: str = "operator"
    workarounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.node} (BMC {self.host})"


def address_of(machine: InventoryNode) -> BmcAddress:
    """Return where the machine's BMC is; BadInventory without an address or login, or for an unknown privilege."""
    hardware = machine.hardware
    if machine.bmc is None:
        raise BadInventory(f"{machine.node}: has no address of a BMC", hint='add bmc = "..." to its [[machines]]')
    if hardware.credential is None:
        where = f"[hardware.{hardware.name}]"
        raise BadInventory(f"{machine.node}: no login for its BMC", hint=f"add credential = ... below {where}")
    if hardware.privilege not in PRIVILEGES:
        what = f"hardware.{hardware.name}.privilege: {hardware.privilege!r} is no privilege"
        raise BadInventory(what, hint=did_you_mean(hardware.privilege, PRIVILEGES))
    return BmcAddress(
        node=machine.node,
        host=machine.bmc,
        credential=hardware.credential,
        port=hardware.port or PORT,
        cipher_suite=hardware.cipher_suite,
        privilege=hardware.privilege,
        workarounds=hardware.workarounds,
    )

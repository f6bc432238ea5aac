"""The machines of a site, and how each is reached: nodes with their BMCs, PDUs with their outlets."""

from dataclasses import dataclass, field
from pathlib import Path

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential
from offpeak.text import did_you_mean

SLEEP_METHODS = ("standby", "soft_off", "hard_off")
"""The ladder of ways down, shallow to deep: suspend to memory (ACPI S3), ordered shutdown (S5), power cut."""


@dataclass(frozen=True)
class SleepMethod:
    """One way down for a kind of node: what wakes it, first to last ("bmc", "wol"), and how long either may take.

    A node in it draws at most `ceiling_w`: the only proof of a standby that a BMC does not tell. None: not known.
    """

    name: str
    wake: tuple[str, ...]
    enter_patience_s: int
    wake_patience_s: int
    ceiling_w: float | None = None


@dataclass(frozen=True)
class Hardware:
    """A kind of node: by which driver and login its BMC is spoken to, and which rungs exist, shallow to deep."""

    name: str
    driver: str | None = None
    credential: Credential | None = None
    port: int | None = None
    cipher_suite: int = 17
    privilege: str = "operator"
    workarounds: tuple[str, ...] = ()
    verify: bool | Path = True
    ssh: Credential | None = None
    ssh_port: int = 22
    rungs: tuple[SleepMethod, ...] = ()
    node_class: str | None = None

    def rung(self, name: str) -> SleepMethod | None:
        """Return the rung of that name, None if such nodes have none."""
        return next((rung for rung in self.rungs if rung.name == name), None)


@dataclass(frozen=True)
class Enrolment:
    """What a node's BMC said when it was enrolled: who it is, what it can do, and the day."""

    identity: str
    capabilities: tuple[str, ...]
    date: str


@dataclass(frozen=True)
class InventoryNode:
    """A node and its addresses; None for what it does not have. `wol_via` is where its wake-up packets are sent."""

    node: str
    hardware: Hardware
    bmc: str | None = None
    ssh: str | None = None
    mac: str | None = None
    wol_via: str = "255.255.255.255"
    rack: str | None = None
    enrolled: Enrolment | None = None


@dataclass(frozen=True)
class Pdu:
    """A power distribution unit. `outlets` says which node hangs on which outlet, both as they are named."""

    name: str
    host: str
    family: str
    credential: Credential
    port: int = 161
    version: str = "2c"
    outlets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Inventory:
    """All of a site; `path` is the file that says so."""

    path: Path
    machines: tuple[InventoryNode, ...] = ()
    pdus: tuple[Pdu, ...] = ()
    credentials: tuple[Credential, ...] = field(default=())

    def chosen(self, nodes: tuple[str, ...]) -> tuple[InventoryNode, ...]:
        """Return the machines of those names, in that order; BadInventory for a name that is not there."""
        by_name = {machine.node: machine for machine in self.machines}
        for node in nodes:
            if node not in by_name:
                raise BadInventory(f"{self.path}: has no node {node}", hint=did_you_mean(node, by_name))
        return tuple(by_name[node] for node in nodes)

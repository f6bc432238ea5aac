"""The machines of a site, and how each is reached: nodes with their BMCs, PDUs with their outlets."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from offpeak.errors import BadInventory
from offpeak.machines.credentials import Credential
from offpeak.model.orders import NodeOrder
from offpeak.text import did_you_mean

SLEEP_METHODS = (NodeOrder.STANDBY, NodeOrder.SOFT_OFF, NodeOrder.HARD_OFF)
"""The orders that put a node to sleep, shallow to deep."""

DEEP = "deep"
"""The kernel's name of ACPI S3 in /sys/power/mem_sleep; "shallow" is S1, "s2idle" suspends without the firmware."""


@dataclass(frozen=True)
class SleepMethod:
    """An order that puts a kind of node to sleep, the ways to wake it ("bmc", "wol"), and how long each may take.

    A sleeping node draws at most `ceiling_w`, None if not known. This proves a standby if the BMC does not report it.
    `mem_sleep` is the kernel's sleep state for a standby.
    """

    order: NodeOrder
    wake: tuple[str, ...]
    enter_timeout_s: int
    wake_timeout_s: int
    ceiling_w: float | None = None
    mem_sleep: str = DEEP

    @property
    def capability(self) -> str:
        """The capability of a node that has proven this method; each sleep state is proven separately."""
        return str(self.order) if self.mem_sleep == DEEP else f"{self.order}:{self.mem_sleep}"


def is_standby_proof(capability: str) -> bool:
    """Whether the capability is that of a proven standby, in any sleep state."""
    return capability.partition(":")[0] == NodeOrder.STANDBY


@dataclass(frozen=True)
class Hardware:
    """A kind of node: the driver and login of its BMC, and its sleep methods, shallow to deep.

    `url` is the power-control service that has such nodes.

    `bmc_power` is "enclosure" if the BMC reports the power of the whole enclosure. `cap_by` is what caps the power of
    running nodes ("bmc", "cpu" or "gpu"), None for no caps; `cap_curve` names the curve that tells how much that slows
    their jobs down. A node is up once all its `gpus` answer; 0: they are not counted.
    """

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
    sleep_methods: tuple[SleepMethod, ...] = ()
    node_class: str | None = None
    bmc_power: str = "node"
    cap_by: str | None = None
    cap_curve: str | None = None
    gpus: int = 0
    url: str | None = None

    def sleep_method(self, order: NodeOrder) -> SleepMethod | None:
        """Return the sleep method of the order, None if such nodes have none."""
        return next((method for method in self.sleep_methods if method.order is order), None)


@dataclass(frozen=True)
class Enrolment:
    """The identity and capabilities of a BMC at its enrolment, and the date."""

    identity: str
    capabilities: tuple[str, ...]
    date: str


@dataclass(frozen=True)
class InventoryNode:
    """A node and its addresses; a missing one is None. `wol_via` is the destination of its wake-up packets."""

    node: str
    hardware: Hardware
    bmc: str | None = None
    ssh: str | None = None
    mac: str | None = None
    wol_via: str = "255.255.255.255"
    rack: str | None = None
    enclosure: str | None = None
    enrolled: Enrolment | None = None

    @property
    def is_unencrypted(self) -> bool:
        """Whether a password or token travels to the node's BMC, or its service, by http."""
        return (self.hardware.url or self.bmc or "").startswith("http://")

    def usable_method(self, order: NodeOrder) -> SleepMethod | None:
        """Return the sleep method of the order, None if the node has none, or has not proven that standby."""
        method = self.hardware.sleep_method(order)
        if method is None or order is not NodeOrder.STANDBY:
            return method
        return method if self.enrolled and method.capability in self.enrolled.capabilities else None


@dataclass(frozen=True)
class Pdu:
    """A power distribution unit. `outlets` maps the names of outlets to the names of nodes or enclosures."""

    name: str
    host: str
    family: str
    credential: Credential
    port: int = 161
    version: str = "2c"
    outlets: tuple[tuple[str, str], ...] = ()


BMC_WAYS = ("dcmi", "redfish")


@dataclass(frozen=True)
class Enclosure:
    """Nodes that share power supplies, which `outlets` outlets feed. `by_bmc`: their BMCs report its power."""

    name: str
    nodes: tuple[str, ...]
    outlets: int = 0
    by_bmc: bool = False

    def is_measured(self, node: str | None, way: str) -> bool:
        """Tell whether a reading of that node, or with that name, read in that way, is of the whole enclosure."""
        return node == self.name or (self.by_bmc and way in BMC_WAYS)


@dataclass(frozen=True)
class Collector:
    """A process on a host of another network, which reads the meters of these nodes and PDUs and posts them to `url`.

    Its credential holds its token; `verify` is as for the BMCs of a kind of node.
    """

    name: str
    nodes: frozenset[str]
    pdus: frozenset[str]
    credential: Credential
    url: str | None = None
    verify: bool | Path = True


@dataclass(frozen=True)
class Inventory:
    """All machines of a site; `path` is the inventory file."""

    path: Path
    machines: tuple[InventoryNode, ...] = ()
    pdus: tuple[Pdu, ...] = ()
    credentials: tuple[Credential, ...] = field(default=())
    collectors: tuple[Collector, ...] = ()

    @cached_property
    def enclosure_of(self) -> Mapping[str, Enclosure]:
        """The enclosures by their names and the names of their nodes."""
        outlets = Counter(target for pdu in self.pdus for _, target in pdu.outlets)
        members = defaultdict[str, list[InventoryNode]](list)
        for machine in self.machines:
            if machine.enclosure:
                members[machine.enclosure].append(machine)
        found = dict[str, Enclosure]()
        for name, its in members.items():
            nodes = tuple(machine.node for machine in its)
            by_bmc = all(machine.hardware.bmc_power == "enclosure" for machine in its)
            found |= dict.fromkeys((name, *nodes), Enclosure(name, nodes, outlets[name], by_bmc))
        return found

    @cached_property
    def reader_of(self) -> Mapping[str, str]:
        """The collector that reads a meter, by the name of its node, enclosure or PDU; others are read by this host."""
        readers = {name: each.name for each in self.collectors for name in (*each.nodes, *each.pdus)}
        return readers | {self.enclosure_of[name].name: of for name, of in readers.items() if name in self.enclosure_of}

    def read_by(self, collector: str | None) -> tuple[tuple[InventoryNode, ...], tuple[Pdu, ...]]:
        """Return the nodes and the PDUs that this collector reads, None: that this host reads itself."""
        nodes = (machine for machine in self.machines if self.reader_of.get(machine.node) == collector)
        return tuple(nodes), tuple(pdu for pdu in self.pdus if self.reader_of.get(pdu.name) == collector)

    def nodes_on(self, pdu: Pdu) -> frozenset[str]:
        """Return the nodes that the outlets of a PDU feed, those in enclosures too."""
        nodes = {machine.node for machine in self.machines}
        fed = ((of,) if of in nodes else self.enclosure_of[of].nodes for _, of in pdu.outlets)
        return frozenset(node for each in fed for node in each)

    def chosen(self, nodes: tuple[str, ...]) -> tuple[InventoryNode, ...]:
        """Return the machines of those names, in that order. Raises BadInventory for an unknown name."""
        by_name = {machine.node: machine for machine in self.machines}
        for node in nodes:
            if node not in by_name:
                raise BadInventory(f"{self.path}: has no node {node}", hint=did_you_mean(node, by_name))
        return tuple(by_name[node] for node in nodes)

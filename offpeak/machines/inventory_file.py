"""Reads an inventory: the tables and keys of the TOML file that lists nodes and PDUs, and how each is reached."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, Field, StringConstraints

from offpeak.errors import BadInput, BadInventory
from offpeak.files import is_there, read_bytes
from offpeak.machines.credentials import Credential, secret_path
from offpeak.machines.inventory import (
    DEEP,
    SLEEP_METHODS,
    Collector,
    Enrolment,
    Hardware,
    Inventory,
    InventoryNode,
    Pdu,
    SleepMethod,
)
from offpeak.machines.node_sets import expand_in_order
from offpeak.model.description import Description, Duration, Key, Name, Power, TableModel, WrongEntry, text_by
from offpeak.text import did_you_mean

Value = TypeVar("Value")
Port = Annotated[int, Field(ge=1, le=65535)]
NodeSet = Annotated[tuple[str, ...], text_by(expand_in_order)]
_NUMBERS = re.compile(r"[\d,/-]+")
WITHOUT_LOGIN = ("pbsnodes",)
"""This driver runs commands as the agent's user, a manager of Torque."""
EQUALLY_MANY = "both sides must be equally many, in the same order"


class CredentialTable(TableModel):
    """[credentials.NAME]: a login."""

    user: str = ""
    password_file: Name | None = None
    privacy_file: Name | None = None
    authentication: Literal["MD5", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512"] = "SHA"
    privacy: Literal["DES", "3DES", "AES", "AES-192", "AES-256", "AES-192-C", "AES-256-C"] = "AES"
    key_file: Name | None = None
    known_hosts: Name | None = None


class SleepMethodTable(TableModel):
    """[hardware.NAME.standby], .soft_off or .hard_off: a sleep method of such nodes."""

    wake: tuple[Literal["bmc", "wol"], ...] = Field(("bmc",), min_length=1, strict=False)
    # The second names are those of version 0.1.
    enter_timeout: Duration = Field(600, validation_alias=AliasChoices("enter_timeout", "enter_patience"))
    wake_timeout: Duration = Field(600, validation_alias=AliasChoices("wake_timeout", "wake_patience"))
    ceiling: Power | None = None


class StandbyTable(SleepMethodTable):
    """[hardware.NAME.standby]: the sleep method that the node's own kernel carries out."""

    mem_sleep: Literal["deep", "shallow", "s2idle"] = "deep"


class HardwareTable(TableModel):
    """[hardware.NAME]: a kind of node."""

    driver: Name | None = None
    credential: Name | None = None
    url: Name | None = None
    port: Port | None = None
    cipher_suite: Annotated[int, Field(ge=1, le=17)] = 17
    privilege: Literal["user", "operator", "admin"] = "operator"
    workarounds: tuple[Name, ...] = Field((), strict=False)
    verify: bool | Name = True
    ssh: Name | None = None
    ssh_port: Port = 22
    node_class: Name | None = None
    bmc_power: Literal["node", "enclosure"] = "node"
    cap_by: Literal["bmc", "cpu", "gpu"] | None = None
    cap_curve: Name | None = None
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    standby: StandbyTable | None = None
    soft_off: SleepMethodTable | None = None
    hard_off: SleepMethodTable | None = None


class MachinesTable(TableModel):
    """[[machines]]: nodes of one kind, and their addresses in the same order."""

    nodes: NodeSet
    hardware: Name
    bmc: NodeSet | None = None
    ssh: NodeSet | None = None
    mac: tuple[Name, ...] | None = Field(None, strict=False)
    wol_via: Name = "255.255.255.255"
    rack: Name | None = None
    enclosure: NodeSet = ()


class PduTable(TableModel):
    """[pdus.NAME]: a power distribution unit, and the nodes on its outlets."""

    host: Name
    family: Name = "auto"
    credential: Name
    port: Port = 161
    version: Literal["1", "2c", "3"] = "2c"
    outlets: dict[str, Name] = Field(default_factory=dict)


class CollectorTable(TableModel):
    """[collectors.NAME]: a process in another network, and the nodes and PDUs whose meters it reads there."""

    nodes: NodeSet = ()
    pdus: NodeSet = ()
    credential: Name
    url: Name | None = None
    verify: bool | Name = True


class EnrolmentTable(TableModel):
    """A line of [enrolled]: the identity and capabilities that a node's BMC reported."""

    identity: Name
    capabilities: tuple[str, ...] = Field((), strict=False)
    date: Name


class InventoryShape(Description):
    """The whole file."""

    noun = "an inventory"
    page = "the how-to pages show every key of an inventory"
    error = BadInventory

    credentials: dict[str, CredentialTable] = Field(default_factory=dict)
    hardware: dict[str, HardwareTable] = Field(default_factory=dict)
    machines: tuple[MachinesTable, ...] = Field((), strict=False)
    pdus: dict[str, PduTable] = Field(default_factory=dict)
    collectors: dict[Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,64}$")], CollectorTable] = Field(
        default_factory=dict
    )
    enrolled: dict[str, EnrolmentTable] = Field(default_factory=dict)


def read_inventory(path: Path) -> Inventory:
    """Return the inventory in the file. Raises BadInventory with the file, the key and a hint.

    Paths of passwords and keys are those of `secret_path`; the files themselves are not read here.
    """
    if not is_there(path):
        hint = "docs/reference/inventory.md shows how one is written; `offpeak virtual` makes one to try things on"
        raise BadInventory(f"{path}: there is no inventory", hint=hint)
    text = read_bytes(path, BadInventory)
    return InventoryShape.parse(text, str(path), lambda shape: _Reader(path, shape).inventory())


class _Reader:
    """Joins the tables of one file."""

    def __init__(self, path: Path, shape: InventoryShape) -> None:
        self._path, self._shape = path, shape
        self._credentials = {name: self._credential(name, table) for name, table in shape.credentials.items()}
        self._hardware = {name: self._kind(name, table) for name, table in shape.hardware.items()}

    def inventory(self) -> Inventory:
        machines = tuple(self._machines())
        names = [machine.node for machine in machines]
        enclosures = {machine.enclosure for machine in machines if machine.enclosure}
        _refuse_twice(names, "nodes")
        # An order to one of the two nodes would switch the other one, too.
        _refuse_twice([machine.bmc for machine in machines if machine.bmc], "bmc")
        # An enclosure has the power of several nodes, so its name is that of none.
        _refuse_twice([*enclosures, *names], "enclosure")
        pdus = tuple(self._pdu(name, table, {*names, *enclosures}) for name, table in self._shape.pdus.items())
        collectors = tuple(self._collector(name, table, names) for name, table in self._shape.collectors.items())
        _refuse_twice([name for each in collectors for name in (*each.nodes, *each.pdus)], "collectors")
        inventory = Inventory(self._path, machines, pdus, tuple(self._credentials.values()), collectors)
        _refuse_shared_devices(inventory)
        return inventory

    def _credential(self, name: str, table: CredentialTable) -> Credential:
        written = table.model_dump()
        for key in ("password_file", "privacy_file", "key_file", "known_hosts"):
            if written[key] is not None:
                written[key] = secret_path(Path(written[key]), beside=self._path.parent)
        return Credential(name=name, **written)

    def _kind(self, name: str, table: HardwareTable) -> Hardware:
        key = ("hardware", name)
        if table.driver and table.driver not in WITHOUT_LOGIN and table.credential is None:
            hint = f'add credential = "..." below [hardware.{name}]'
            raise WrongEntry("has a driver but no credential", *key, hint=hint)
        if table.gpus and not table.ssh:
            hint = f'add ssh = "..." below [hardware.{name}], or leave out gpus'
            raise WrongEntry("gpus are counted by ssh, and it has none", *key, hint=hint)
        cap_curve = table.cap_curve
        return Hardware(
            name=name,
            credential=self._login(table.credential, *key, "credential") if table.credential else None,
            verify=self._certificate(table.verify),
            ssh=self._login(table.ssh, *key, "ssh") if table.ssh else None,
            sleep_methods=tuple(
                SleepMethod(
                    order,
                    method.wake,
                    method.enter_timeout,
                    method.wake_timeout,
                    method.ceiling,
                    method.mem_sleep if isinstance(method, StandbyTable) else DEEP,
                )
                for order in SLEEP_METHODS
                if (method := getattr(table, order)) is not None
            ),
            cap_curve=str(self._path.parent / cap_curve) if cap_curve and cap_curve.endswith(".csv") else cap_curve,
            **table.model_dump(exclude={"credential", "verify", "ssh", "cap_curve", *SLEEP_METHODS}),
        )

    def _login(self, name: str, *key: Key) -> Credential:
        return _find(self._credentials, name, "credentials", *key)

    def _certificate(self, verify: bool | str) -> bool | Path:
        return verify if isinstance(verify, bool) else self._path.parent / verify

    def _machines(self) -> Iterator[InventoryNode]:
        for number, table in enumerate(self._shape.machines):
            key, nodes = ("machines", number), table.nodes
            hardware = _find(self._hardware, table.hardware, "hardware", *key, "hardware")
            for name in ("bmc", "ssh"):
                addresses = getattr(table, name)
                if addresses is not None and len(addresses) != len(nodes):
                    raise WrongEntry(f"{len(addresses)} for {len(nodes)} nodes", *key, name, hint=EQUALLY_MANY)
            if table.mac is not None and len(table.mac) != len(nodes):
                raise WrongEntry(
                    f"{len(table.mac)} addresses for {len(nodes)} nodes", *key, "mac", hint="give one a node"
                )
            if table.enclosure and len(nodes) % len(table.enclosure):
                what = f"{len(nodes)} nodes in {len(table.enclosure)} enclosures"
                hint = "each has equally many nodes; write other nodes below a [[machines]] of their own"
                raise WrongEntry(what, *key, "enclosure", hint=hint)
            for at, node in enumerate(nodes):
                enrolled = self._shape.enrolled.get(node)
                yield InventoryNode(
                    node=node,
                    hardware=hardware,
                    bmc=table.bmc[at] if table.bmc else None,
                    ssh=(table.ssh or nodes)[at] if hardware.ssh else None,
                    mac=table.mac[at] if table.mac else None,
                    wol_via=table.wol_via,
                    rack=table.rack,
                    enclosure=table.enclosure[at * len(table.enclosure) // len(nodes)] if table.enclosure else None,
                    enrolled=Enrolment(**enrolled.model_dump()) if enrolled else None,
                )

    def _pdu(self, name: str, table: PduTable, nodes: set[str]) -> Pdu:
        key = ("pdus", name, "outlets")
        pairs: list[tuple[str, str]] = []
        for written, fed in table.outlets.items():
            try:
                outlets = expand_in_order(f"[{written}]" if _NUMBERS.fullmatch(written) else written)
                names = expand_in_order(fed)
            except BadInput as problem:
                raise WrongEntry(str(problem), *key, hint=problem.hint) from None
            if len(names) != len(outlets):
                raise WrongEntry(f"{fed!r} is {len(names)} for {len(outlets)}", *key, hint=EQUALLY_MANY)
            pairs += zip(outlets, names, strict=True)
        for _, node in pairs:
            if node not in nodes:
                raise WrongEntry(f"{node} is in no [[machines]]", *key, hint=did_you_mean(node, nodes))
        _refuse_twice([outlet for outlet, _ in pairs], *key)
        return Pdu(
            name=name,
            host=table.host,
            family=str(self._path.parent / table.family) if table.family.endswith(".toml") else table.family,
            credential=self._login(table.credential, "pdus", name, "credential"),
            port=table.port,
            version=table.version,
            outlets=tuple(pairs),
        )

    def _collector(self, name: str, table: CollectorTable, known: Sequence[str]) -> Collector:
        key = ("collectors", name)
        for node in set(table.nodes).difference(known):
            raise WrongEntry(f"{node} is in no [[machines]]", *key, "nodes", hint=did_you_mean(node, known))
        for pdu in table.pdus:
            _find(self._shape.pdus, pdu, "pdus", *key, "pdus")
        credential, verify = self._login(table.credential, *key, "credential"), self._certificate(table.verify)
        return Collector(name, frozenset(table.nodes), frozenset(table.pdus), credential, table.url, verify)


def _refuse_shared_devices(inventory: Inventory) -> None:
    """Refuse what two readers would count twice, or by halves: a PDU with two names, a part of an enclosure."""
    readers: dict[object, str | None] = {}
    for reader in (None, *(each.name for each in inventory.collectors)):
        nodes, pdus = inventory.read_by(reader)
        targets = (target for pdu in pdus for _, target in pdu.outlets if target in inventory.enclosure_of)
        enclosures = {inventory.enclosure_of[each].name for each in targets}
        enclosures |= {each.enclosure for each in nodes if each.enclosure}
        for device in (*((pdu.host, pdu.port) for pdu in pdus), *enclosures):
            if readers.setdefault(device, reader) != reader:
                which = device if isinstance(device, str) else device[0]
                what = f"{which}: is read by collector {reader} and by {readers[device] or 'this host'}"
                raise WrongEntry(what, hint=f"let [collectors.{reader}] name all of it, or nothing of it")


def _refuse_twice(names: Iterable[str], *key: Key) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise WrongEntry(f"{twice[0]} is there twice", *key, hint="leave one of them")


def _find(known: Mapping[str, Value], name: str, table: str, *key: Key) -> Value:
    if name not in known:
        hint = did_you_mean(name, known) if known else f"add a table [{table}.{name}]"
        raise WrongEntry(f"there is no [{table}.{name}]", *key, hint=hint)
    return known[name]

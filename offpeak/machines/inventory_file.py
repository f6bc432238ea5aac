"""Reads an inventory: the tables and keys of the TOML file that lists nodes and PDUs, and how each is reached."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AliasChoices, Field, StringConstraints

from offpeak.errors import BadInput, BadInventory
from offpeak.files import is_there, read_bytes
from offpeak.machines.credentials import Credential, secret_path
from offpeak.machines.inventory import (
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
from offpeak.model.description import Description, Duration, Name, Power, TableModel
from offpeak.text import did_you_mean

Port = Annotated[int, Field(ge=1, le=65535)]


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

    nodes: Name
    hardware: Name
    bmc: Name | None = None
    ssh: Name | None = None
    mac: tuple[Name, ...] | None = Field(None, strict=False)
    wol_via: Name = "255.255.255.255"
    rack: Name | None = None
    enclosure: Name | None = None


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

    nodes: Name | None = None
    pdus: Name | None = None
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


Value = TypeVar("Value")
# The driver pbsnodes runs commands as the agent's user, a manager of Torque.
WITHOUT_LOGIN = ("pbsnodes",)
_NUMBERS = re.compile(r"[\d,/-]+")


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
        self._credentials = {name: self._credential(name, credential) for name, credential in shape.credentials.items()}
        self._hardware = {name: self._kind(name, table) for name, table in shape.hardware.items()}

    def inventory(self) -> Inventory:
        machines = tuple(self._machines())
        names = [machine.node for machine in machines]
        self._refuse_twice("nodes", names)
        # An order to one of the two nodes would switch the other one, too.
        self._refuse_twice("bmc", [machine.bmc for machine in machines if machine.bmc])
        # An enclosure has the power of several nodes, so its name is that of none.
        self._refuse_twice("enclosure", [*{each.enclosure for each in machines if each.enclosure}, *names])
        nodes = {*names, *(machine.enclosure for machine in machines if machine.enclosure)}
        pdus = tuple(self._pdu(name, table, nodes) for name, table in self._shape.pdus.items())
        collectors = tuple(self._collector(*each, names) for each in self._shape.collectors.items())
        self._refuse_twice("collectors", [name for each in collectors for name in (*each.nodes, *each.pdus)])
        inventory = Inventory(self._path, machines, pdus, tuple(self._credentials.values()), collectors)
        self._refuse_shared_devices(inventory)
        return inventory

    def _collector(self, name: str, table: CollectorTable, known: Sequence[str]) -> Collector:
        place = f"collectors.{name}"
        nodes = self._expanded(table.nodes, f"{place}.nodes") if table.nodes else ()
        pdus = self._expanded(table.pdus, f"{place}.pdus") if table.pdus else ()
        for node in set(nodes).difference(known):
            raise self._wrong(f"{place}.nodes: {node} is in no [[machines]]", hint=did_you_mean(node, known))
        for pdu in pdus:
            self._known(self._shape.pdus, pdu, f"{place}.pdus", "pdus")
        credential = self._known(self._credentials, table.credential, f"{place}.credential", "credentials")
        verify = table.verify if isinstance(table.verify, bool) else self._path.parent / table.verify
        return Collector(name, frozenset(nodes), frozenset(pdus), credential, table.url, verify)

    def _refuse_shared_devices(self, inventory: Inventory) -> None:
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
                    raise self._wrong(what, hint=f"let [collectors.{reader}] name all of it, or nothing of it")

    def _credential(self, name: str, table: CredentialTable) -> Credential:
        written = table.model_dump()
        files = {key: written[key] for key in ("password_file", "privacy_file", "key_file", "known_hosts")}
        places = {
            key: None if file is None else secret_path(Path(file), beside=self._path.parent)
            for key, file in files.items()
        }
        return Credential(name=name, **(written | places))

    def _kind(self, name: str, table: HardwareTable) -> Hardware:
        place = f"hardware.{name}"
        needed = ("credential",) if table.driver and table.driver not in WITHOUT_LOGIN else ()
        for key in needed:
            if getattr(table, key) is None:
                raise self._wrong(f"{place}: has a driver but no {key}", hint=f'add {key} = "..." below [{place}]')
        if table.gpus and not table.ssh:
            what = f"{place}: gpus are counted by ssh, and it has none"
            raise self._wrong(what, hint=f'add ssh = "..." below [{place}], or leave out gpus')
        return Hardware(
            name=name,
            credential=self._login(table.credential, f"{place}.credential"),
            verify=table.verify if isinstance(table.verify, bool) else self._path.parent / table.verify,
            ssh=self._login(table.ssh, f"{place}.ssh"),
            sleep_methods=tuple(_sleep_methods(table)),
            cap_curve=self._cap_curve(table.cap_curve),
            **table.model_dump(exclude={"credential", "verify", "ssh", "cap_curve", *SLEEP_METHODS}),
        )

    def _cap_curve(self, name: str | None) -> str | None:
        return str(self._path.parent / name) if name and name.endswith(".csv") else name

    def _login(self, name: str | None, place: str) -> Credential | None:
        return None if name is None else self._known(self._credentials, name, place, "credentials")

    def _machines(self) -> Iterator[InventoryNode]:
        for number, table in enumerate(self._shape.machines, start=1):
            place = f"machines[{number}]"
            hardware = self._known(self._hardware, table.hardware, f"{place}.hardware", "hardware")
            yield from self._group(table, hardware, place)

    def _group(self, table: MachinesTable, hardware: Hardware, place: str) -> Iterator[InventoryNode]:
        nodes = self._expanded(table.nodes, f"{place}.nodes")
        bmcs = self._as_many(nodes, table.bmc, f"{place}.bmc")
        hosts = self._as_many(nodes, table.ssh, f"{place}.ssh") if table.ssh else nodes
        macs = table.mac or [None] * len(nodes)
        if len(macs) != len(nodes):
            raise self._wrong(f"{place}.mac: {len(macs)} addresses for {len(nodes)} nodes", hint="give one a node")
        enclosures = self._expanded(table.enclosure, f"{place}.enclosure") if table.enclosure else ()
        if enclosures and len(nodes) % len(enclosures):
            what = f"{place}.enclosure: {len(nodes)} nodes in {len(enclosures)} enclosures"
            raise self._wrong(
                what, hint="each has equally many nodes; write other nodes below a [[machines]] of their own"
            )
        for number, (node, bmc, host, mac) in enumerate(zip(nodes, bmcs, hosts, macs, strict=True)):
            ssh = host if hardware.ssh else None
            yield InventoryNode(
                node=node,
                hardware=hardware,
                bmc=bmc,
                ssh=ssh,
                mac=mac,
                wol_via=table.wol_via,
                rack=table.rack,
                enclosure=enclosures[number * len(enclosures) // len(nodes)] if enclosures else None,
                enrolled=self._enrolled(node),
            )

    def _enrolled(self, node: str) -> Enrolment | None:
        found = self._shape.enrolled.get(node)
        return None if found is None else Enrolment(found.identity, found.capabilities, found.date)

    def _pdu(self, name: str, table: PduTable, nodes: set[str]) -> Pdu:
        place = f"pdus.{name}"
        credential = self._known(self._credentials, table.credential, f"{place}.credential", "credentials")
        outlets = tuple(self._outlets(table.outlets, f"{place}.outlets", nodes))
        self._refuse_twice(f"{place}.outlets", [outlet for outlet, _ in outlets])
        family = str(self._path.parent / table.family) if table.family.endswith(".toml") else table.family
        return Pdu(
            name=name,
            host=table.host,
            family=family,
            credential=credential,
            port=table.port,
            version=table.version,
            outlets=outlets,
        )

    def _outlets(self, written: Mapping[str, str], place: str, nodes: set[str]) -> Iterator[tuple[str, str]]:
        for outlets_text, nodes_text in written.items():
            outlets = self._expanded(f"[{outlets_text}]" if _NUMBERS.fullmatch(outlets_text) else outlets_text, place)
            for outlet, node in zip(outlets, self._as_many(outlets, nodes_text, place), strict=True):
                if node not in nodes:
                    raise self._wrong(f"{place}: {node} is in no [[machines]]", hint=did_you_mean(str(node), nodes))
                yield outlet, str(node)

    def _as_many(self, nodes: Sequence[str], written: str | None, place: str) -> Sequence[str | None]:
        if written is None:
            return [None] * len(nodes)
        found = self._expanded(written, place)
        if len(found) != len(nodes):
            what = f"{place}: {written!r} is {len(found)} for {len(nodes)}"
            raise self._wrong(what, hint="both sides must be equally many, in the same order")
        return found

    def _expanded(self, text: str, place: str) -> tuple[str, ...]:
        try:
            return expand_in_order(text)
        except BadInput as problem:
            raise self._wrong(f"{place}: {problem}", hint=problem.hint) from None

    def _refuse_twice(self, place: str, names: Iterable[str]) -> None:
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise self._wrong(f"{place}: {twice[0]} is there twice", hint="leave one of them")

    def _known(self, known: Mapping[str, Value], name: str, place: str, table: str) -> Value:
        if name not in known:
            hint = did_you_mean(name, known) if known else f"add a table [{table}.{name}]"
            raise self._wrong(f"{place}: there is no [{table}.{name}]", hint=hint)
        return known[name]

    def _wrong(self, what: str, *, hint: str) -> BadInventory:
        return BadInventory(f"{self._path}: {what}", hint=hint)


def _sleep_methods(table: HardwareTable) -> Iterator[SleepMethod]:
    for order in SLEEP_METHODS:
        method = getattr(table, order)
        if method is not None:
            sleep_method = SleepMethod(order, method.wake, method.enter_timeout, method.wake_timeout, method.ceiling)
            is_standby = isinstance(method, StandbyTable)
            yield replace(sleep_method, mem_sleep=method.mem_sleep) if is_standby else sleep_method

"""The tables and keys of an inventory file, and what may stand behind each."""

from typing import Annotated, Literal

from pydantic import Field

from offpeak.machines.table import Duration, Name, Power, Table

Port = Annotated[int, Field(ge=1, le=65535)]


class CredentialTable(Table):
    """[credentials.NAME]: a login."""

    user: str = ""
    password_file: Name | None = None
    privacy_file: Name | None = None
    authentication: Literal["MD5", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512"] = "SHA"
    privacy: Literal["DES", "3DES", "AES", "AES-192", "AES-256", "AES-192-C", "AES-256-C"] = "AES"
    key_file: Name | None = None
    known_hosts: Name | None = None


class RungTable(Table):
    """[hardware.NAME.standby], .soft_off or .hard_off: such nodes may go down this way."""

    wake: tuple[Literal["bmc", "wol"], ...] = Field(("bmc",), min_length=1, strict=False)
    enter_patience: Duration = 600
    wake_patience: Duration = 600
    ceiling: Power | None = None


class HardwareTable(Table):
    """[hardware.NAME]: a kind of node."""

    driver: Name | None = None
    credential: Name | None = None
    port: Port | None = None
    cipher_suite: Annotated[int, Field(ge=1, le=17)] = 17
    privilege: Literal["user", "operator", "admin"] = "operator"
    workarounds: tuple[Name, ...] = Field((), strict=False)
    verify: bool | Name = True
    ssh: Name | None = None
    ssh_port: Port = 22
    node_class: Name | None = None
    standby: RungTable | None = None
    soft_off: RungTable | None = None
    hard_off: RungTable | None = None


class MachinesTable(Table):
    """[[machines]]: nodes of one kind, and their addresses in the same order."""

    nodes: Name
    hardware: Name
    bmc: Name | None = None
    ssh: Name | None = None
    mac: tuple[Name, ...] | None = Field(None, strict=False)
    wol_via: Name = "255.255.255.255"
    rack: Name | None = None


class PduTable(Table):
    """[pdus.NAME]: a power distribution unit, and the nodes on its outlets."""

    host: Name
    family: Name = "auto"
    credential: Name
    port: Port = 161
    version: Literal["1", "2c", "3"] = "2c"
    outlets: dict[str, Name] = Field(default_factory=dict)


class EnrolledTable(Table):
    """A line of [enrolled]: what a node's BMC said of itself."""

    identity: Name
    capabilities: tuple[str, ...] = Field((), strict=False)
    date: Name


class InventoryShape(Table):
    """The whole file."""

    credentials: dict[str, CredentialTable] = Field(default_factory=dict)
    hardware: dict[str, HardwareTable] = Field(default_factory=dict)
    machines: tuple[MachinesTable, ...] = Field((), strict=False)
    pdus: dict[str, PduTable] = Field(default_factory=dict)
    enrolled: dict[str, EnrolledTable] = Field(default_factory=dict)

"""Who may log in to virtual hardware."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sim_backend.virtual.bmc import BmcUser


@dataclass(frozen=True)
class SnmpUser:
    """A user of SNMPv3: `authentication` is SHA or SHA-256, privacy is AES-128."""

    name: str
    authentication: str
    password: str = field(repr=False)
    privacy_password: str = field(repr=False)


@dataclass(frozen=True)
class PduLogins:
    """Who may read a PDU: whoever knows the community, and users of SNMPv3."""

    community: str = field(repr=False)
    users: tuple[SnmpUser, ...] = ()


@dataclass(frozen=True)
class RoomLogins:
    """Who may log in to every BMC of a room, by user name, and to every PDU."""

    bmc: Mapping[bytes, BmcUser]
    pdu: PduLogins

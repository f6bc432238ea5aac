"""The state of a virtual BMC, which its commands read and change. `sim_backend.virtual.rmcp` is its protocol."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from sim_backend.virtual.node import LiveNode

CALLBACK, USER, OPERATOR, ADMINISTRATOR = 1, 2, 3, 4
"""Privilege levels by their numbers on the wire: IPMI v2.0, section 22.18."""

NAMESPACE = uuid.UUID("8d3f0c4e-52a6-5b0e-9c8c-0f1d4f0a7b61")


@dataclass(frozen=True)
class BmcUser:
    """A user who may log in, up to a privilege level."""

    password: bytes = field(repr=False)
    privilege: int = ADMINISTRATOR


@dataclass(frozen=True)
class BmcFaults:
    """The faults of a BMC: no reply, a late or a wrong reply, an accepted order not executed, a foreign identity."""

    silent: bool = False
    delay_s: float = 0.0
    drops_commands: bool = False
    guid: uuid.UUID | None = None
    garbage: bool = False


@dataclass
class LoginCount:
    """The number of logins that began, and of those that were accepted."""

    begun: int = 0
    accepted: int = 0

    @property
    def failed(self) -> int:
        """Logins that were not accepted, or not yet: most clients give up silently if its proof is wrong."""
        return self.begun - self.accepted


@dataclass
class VirtualBmc:
    """The BMC of one node. `orders` are the chassis control commands that reached it, with or without effect.

    `restore_policy` is its reaction when mains power returns (0 stay off, 1 as before, 2 on), `last_event` the bits of
    section 28.2, and `identify` whether its light blinks: 0 no, 1 for a while, 2 until told otherwise.
    """

    node: LiveNode
    users: Mapping[bytes, BmcUser]
    faults: BmcFaults = BmcFaults()
    logins: LoginCount = field(default_factory=LoginCount)
    orders: list[int] = field(default_factory=list)
    restore_policy: int = 1
    last_event: int = 0
    identify: int = 0

    @property
    def guid(self) -> uuid.UUID:
        """The identity that the BMC reports; the same at every start for a node of that name."""
        return self.faults.guid or uuid.uuid5(NAMESPACE, self.node.name)

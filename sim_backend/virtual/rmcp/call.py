"""A command on its way to a virtual BMC, and how it is refused."""

from dataclasses import dataclass

from sim_backend.virtual.bmc import VirtualBmc
from sim_backend.virtual.rmcp.session import Session
from sim_backend.virtual.rmcp.sessions import Sessions

INVALID_COMMAND, WRONG_LENGTH, WRONG_FIELD, NO_PRIVILEGE, WRONG_STATE = 0xC1, 0xC7, 0xCC, 0xD4, 0xD5
"""Completion codes of table 5-2."""


class Refused(Exception):
    """The BMC answers with this completion code and nothing more."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code:#04x}")
        self.code = code


@dataclass(frozen=True)
class Call:
    """A command's data, whose BMC it reached, and in which session; None before login."""

    bmc: VirtualBmc
    sessions: Sessions
    session: Session | None
    data: bytes

    def byte(self, index: int) -> int:
        """Return a byte of the data; Refused if there are fewer."""
        if index >= len(self.data):
            raise Refused(WRONG_LENGTH)
        return self.data[index]

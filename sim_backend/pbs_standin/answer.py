"""What one of PBS's commands answers, and the errors that it may answer with."""

from typing import NamedTuple

from sim_backend.pbs_standin.pbs import TORQUE, VERSIONS

UNKNOWN_JOB, REFUSED, BAD_STATE, UNKNOWN_NODE, BUSY_NODE, NO_ATTRIBUTE = 15001, 15007, 15018, 15062, 15150, 15002
HOOK_ERROR = 15136


class Answer(NamedTuple):
    """What is printed, what is complained of, and the exit code."""

    out: bytes = b""
    err: str = ""
    code: int = 0


def version_of(kind: str) -> Answer:
    """Return what the commands of Torque or OpenPBS print of their version."""
    if kind == TORQUE:
        return Answer(f"Version: {VERSIONS[kind]}\nCommit: 0000000000000000000000000000000000000000\n".encode())
    return Answer(f"pbs_version = {VERSIONS[kind]}\n".encode())


class Refused(Exception):
    """One of PBS's errors; a command's exit code is its number modulo 256."""

    def __init__(self, error: int, said: str) -> None:
        super().__init__(said)
        self.code = error % 256


def all_of(program: str, complaints: list[Refused], out: bytes = b"") -> Answer:
    """Return the answer to an order to several: a complaint for each that was not done, the last one's code."""
    return Answer(out, "".join(f"{program}: {each}\n" for each in complaints), complaints[-1].code if complaints else 0)

"""The client of the broker on this machine: where would a job go?

It loads little, without even asyncio: `offpeak choose` is to answer at once.
"""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput

SOCKET_NAME = "broker.sock"
"""The broker's socket in its state folder, beside what it keeps of sites: who may look there may ask."""
MOST_CHOICE_BYTES = 2 * 1024 * 1024
PATIENCE_S = 5.0


def fetch_choice(state_folder: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the choice as `choice_json` has it; None where no broker has an answer, BadInput for what is wrong in it.

    `asked` has the keys of `ChoiceRequest`.
    """
    line = json.dumps(asked).encode() + b"\n"
    if len(line) > MOST_CHOICE_BYTES:
        return None
    try:
        said = json.loads(_exchange(state_folder / SOCKET_NAME, line))
    except (OSError, ValueError):
        return None
    if "error" in said:
        raise BadInput(said["error"], hint=said["hint"])
    choice: dict[str, Any] | None = said.get("choice")
    return choice


def _exchange(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(os.fspath(path))
        connection.sendall(line)
        return b"".join(iter(lambda: connection.recv(65_536), b""))

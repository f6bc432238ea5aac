"""The clients of the sockets on this machine: of the broker, for the site of a job, and of the agent, for its report.

They import little: `offpeak submit --dry-run` answers at once, and brokers run `offpeak snapshot` over ssh every few
seconds.
"""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput, NoAnswer

SOCKET_NAME = "broker.sock"
"""The broker's socket in its state folder, beside the reports of the sites: users who may read these may query it."""
MOST_CHOICE_BYTES = 2 * 1024 * 1024
PATIENCE_S = 5.0


def fetch_choice(state_folder: Path, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the choice as `choice_json`, None without one. Raises BadInput; `request` is a `ChoiceRequest`."""
    line = json.dumps(request).encode() + b"\n"
    if len(line) > MOST_CHOICE_BYTES:
        return None
    try:
        reply = json.loads(_exchange(state_folder / SOCKET_NAME, line))
    except (OSError, ValueError):
        return None
    if "error" in reply:
        raise BadInput(reply["error"], hint=reply["hint"])
    choice: dict[str, Any] | None = reply.get("choice")
    return choice


def _exchange(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(os.fspath(path))
        connection.sendall(line)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


MOST_BYTES = 256 * 1024
"""The largest report of a site."""


async def read_agent_snapshot(path: Path) -> bytes:
    """Return the report of the agent at that socket as JSON. Raises NoAnswer with the error of the agent."""
    import asyncio

    from offpeak.services.agent.status import FOR_BROKERS

    reader, writer = await asyncio.open_unix_connection(path, limit=MOST_BYTES)
    try:
        writer.write(json.dumps(FOR_BROKERS).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    answer = json.loads(line or b"{}")
    if "snapshot" not in answer:
        raise NoAnswer(str(answer.get("error", "it sent no reply")))
    return json.dumps(answer["snapshot"]).encode()

"""The client of the agent's socket: one line out, one line back. It loads little, because commands import it."""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput, OffpeakError
from services.agent.requests import SNAPSHOT
from services.agent.status_snapshot import StatusReply, parse_status

PATIENCE_S, CLOCK_PATIENCE_S = 10.0, 2.0


class AgentSilent(OffpeakError):
    """No agent answers."""


def fetch_status(path: Path, **request: str) -> StatusReply:
    """Return what the agent says; AgentSilent if none answers, BadInput with what it says against the question."""
    said = exchange(path, request)
    try:
        return parse_status(said.get("published"))
    except ValueError:
        raise silent_error(path, "its answer makes no sense: is it of another version?") from None


def fetch_clock(path: Path) -> float:
    """Return what the agent's clock shows [Unix s], which may be another than this machine's; without one, that."""
    try:
        said = parse_status(exchange(path, {"ask": "status"}, patience_s=CLOCK_PATIENCE_S).get("published"))
    except (OffpeakError, ValueError):
        return time.time()
    return time.time() if said.now_unix_s is None else said.now_unix_s


def send_node_request(path: Path, what: str, nodes: str, text: str = "") -> None:
    """Tell the agent of nodes; AgentSilent if none answers, BadInput with what it says against it."""
    exchange(path, {"tell": what, "nodes": nodes, "text": text})


def fetch_snapshot(path: Path, *, jobs_seen_unix_s: float | None = None) -> dict[str, Any]:
    """Return the agent's picture as `snapshot_json` made it; errors as `fetch_status`."""
    request = {"ask": SNAPSHOT} if jobs_seen_unix_s is None else {"ask": SNAPSHOT, "jobs_seen": repr(jobs_seen_unix_s)}
    picture = exchange(path, request).get("picture")
    if not isinstance(picture, dict):
        raise silent_error(path, "its answer makes no sense: is it of another version?")
    return picture


def exchange(path: Path, request: Mapping[str, str], *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Return what the agent answers, {} for what is no object; errors as `fetch_status`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience_s)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            read = b"".join(iter(lambda: connection.recv(65_536), b""))
            said = json.loads(read)
        except OSError as problem:
            raise silent_error(path, problem.strerror or "no answer in time") from None
        except ValueError:
            raise silent_error(path, "it said nothing") from None
    if not isinstance(said, dict):
        return {}
    if "error" in said:
        raise BadInput(str(said["error"]), hint=str(said.get("hint", "")))
    return said


def silent_error(path: Path, why: str) -> AgentSilent:
    """Return the error of an agent that does not answer, or nothing that can be understood."""
    hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
    return AgentSilent(f"no agent answers at {path}: {why}", hint=hint)

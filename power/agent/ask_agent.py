"""Asking the agent over its socket: one line there, one back."""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offpeak.errors import BadInput, OffpeakError
from power.agent.answer import PICTURE
from power.agent.published import Published, published_of

PATIENCE_S, CLOCK_PATIENCE_S = 10.0, 2.0


class AgentSilent(OffpeakError):
    """No agent answers."""


def ask_agent(path: Path, **request: str) -> Published:
    """Return what the agent says; AgentSilent if none answers, BadInput with what it says against the question."""
    said = asked(path, request)
    try:
        return published_of(said.get("published"))
    except ValueError:
        raise silent(path, "its answer makes no sense: is it of another version?") from None


def clock_of_agent(path: Path) -> float:
    """Return what the agent's clock shows [Unix s], which may be another than this machine's; without one, that."""
    try:
        said = published_of(asked(path, {"ask": "status"}, patience_s=CLOCK_PATIENCE_S).get("published"))
    except (OffpeakError, ValueError):
        return time.time()
    return time.time() if said.now_unix_s is None else said.now_unix_s


def tell_agent(path: Path, what: str, nodes: str, text: str = "") -> None:
    """Tell the agent of nodes; AgentSilent if none answers, BadInput with what it says against it."""
    asked(path, {"tell": what, "nodes": nodes, "text": text})


def ask_picture(path: Path, *, jobs_seen_unix_s: float | None = None) -> dict[str, Any]:
    """Return the agent's picture as `picture_json` made it; errors as `ask_agent`."""
    request = {"ask": PICTURE} if jobs_seen_unix_s is None else {"ask": PICTURE, "jobs_seen": repr(jobs_seen_unix_s)}
    picture = asked(path, request).get("picture")
    if not isinstance(picture, dict):
        raise silent(path, "its answer makes no sense: is it of another version?")
    return picture


def asked(path: Path, request: Mapping[str, str], *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Return what the agent answers, {} for what is no object; errors as `ask_agent`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience_s)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            read = b"".join(iter(lambda: connection.recv(65_536), b""))
            said = json.loads(read)
        except OSError as problem:
            raise silent(path, problem.strerror or "no answer in time") from None
        except ValueError:
            raise silent(path, "it said nothing") from None
    if not isinstance(said, dict):
        return {}
    if "error" in said:
        raise BadInput(str(said["error"]), hint=str(said.get("hint", "")))
    return said


def silent(path: Path, why: str) -> AgentSilent:
    """Return the error of an agent that does not answer, or nothing that can be understood."""
    hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
    return AgentSilent(f"no agent answers at {path}: {why}", hint=hint)

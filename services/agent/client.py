"""The client of the agent's socket: one line out, one line back. It imports little, because commands start with it."""

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpeak.errors import BadInput, OffpeakError
from services.agent.requests import FOR_ADMINS, SNAPSHOT
from services.agent.status_snapshot import StatusReply, StatusSnapshot, parse_snapshot, parse_status

if TYPE_CHECKING:
    from plugin.day_plan.day_plan import DayPlan

PATIENCE_S, CLOCK_PATIENCE_S = 10.0, 2.0


class AgentSilent(OffpeakError):
    """No agent answers."""


def fetch_status(path: Path, **request: str) -> StatusReply:
    """Return the reply to a question. AgentSilent if no agent answers, BadInput if the agent refuses the question."""
    reply = exchange(path, request)
    try:
        return parse_status(reply.get("published"))
    except ValueError:
        raise _senseless_reply(path) from None


def fetch_clock(path: Path) -> float:
    """Return the time of the agent's clock [Unix s], which may be faster; without an agent that of this machine."""
    try:
        status = parse_status(exchange(path, {"ask": "status"}, patience_s=CLOCK_PATIENCE_S).get("published"))
    except (OffpeakError, ValueError):
        return time.time()
    return time.time() if status.now_unix_s is None else status.now_unix_s


def fetch_snapshot(path: Path, *, jobs_seen_unix_s: float | None = None) -> StatusSnapshot:
    """Return the snapshot of the agent, without jobs if they are still those of that time; errors as `fetch_status`."""
    request = {"ask": SNAPSHOT} if jobs_seen_unix_s is None else {"ask": SNAPSHOT, "jobs_seen": repr(jobs_seen_unix_s)}
    try:
        return parse_snapshot(exchange(path, request).get("picture"))
    except ValueError:
        raise _senseless_reply(path) from None


def fetch_plan(path: Path) -> "DayPlan":
    """Return the plan that the agent carries out; errors as `fetch_status`."""
    # The planner imports numpy, which other commands do without.
    from plugin.day_plan.day_plan import plan_from_json

    reply = exchange(path, FOR_ADMINS)
    try:
        return plan_from_json(reply.get("plan"))
    except ValueError:
        raise _senseless_reply(path) from None


def send_node_request(path: Path, what: str, nodes: str, text: str = "") -> None:
    """Send a request about nodes. AgentSilent if no agent answers, BadInput if the agent refuses the request."""
    exchange(path, {"tell": what, "nodes": nodes, "text": text})


def exchange(path: Path, request: Mapping[str, str], *, patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """Return the reply of the agent, {} if it is no object; errors as `fetch_status`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience_s)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
            reply = json.loads(received)
        except OSError as problem:
            raise _silent_error(path, problem.strerror or "no answer in time") from None
        except ValueError:
            raise _silent_error(path, "it sent no reply") from None
    if not isinstance(reply, dict):
        return {}
    if "error" in reply:
        raise BadInput(str(reply["error"]), hint=str(reply.get("hint", "")))
    return reply


def _senseless_reply(path: Path) -> AgentSilent:
    return _silent_error(path, "its answer makes no sense: is it of another version?")


def _silent_error(path: Path, why: str) -> AgentSilent:
    hint = "is it running? `systemctl status offpeak-agent`; --socket names another"
    return AgentSilent(f"no agent answers at {path}: {why}", hint=hint)

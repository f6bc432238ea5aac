"""Requests to the agent and their replies: one line of JSON in, one line of JSON out, by the rights of the caller.

Nothing here waits. The kernel names the caller, who may have the right to ask, to report nodes, or to hold nodes.
"""

import grp
import json
import os
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from offpeak.door.effect import ADMIN
from offpeak.errors import BadInput, BadSetting, OffpeakError
from offpeak.machines.node_sets import expand
from offpeak.model.orders import NodeOrder
from services.agent.status_snapshot import StatusReply, status_json
from services.agent.wake_reply import WakeReply
from services.unix_socket import Peer

ROOT = 0


@dataclass(frozen=True)
class Rights:
    """`may_tell`: what it says of nodes counts. `may_hold`: it may hold and release nodes. `sees_all`: all jobs."""

    may_tell: bool
    may_hold: bool
    sees_all: bool


@dataclass(frozen=True)
class Callers:
    """The user of the agent, the user of the scheduler, and the groups of operators and of viewers."""

    own_uid: int
    scheduler_uid: int | None = None
    operators_gid: int | None = None
    viewers_gid: int | None = None

    def rights_of(self, peer: Peer) -> Rights:
        """Return what the peer may do."""
        may_tell = peer.uid in (ROOT, self.own_uid, self.scheduler_uid)
        may_hold = may_tell or self.operators_gid in peer.groups
        return Rights(may_tell, may_hold, sees_all=may_hold or self.viewers_gid in peer.groups)


def find_callers(scheduler_user: str, operators: str | None, viewers: str | None = None) -> Callers:
    """Return who has which rights; BadSetting for a group that is not there, or that is meant to be both.

    A user that is not there tells nothing.
    """
    if operators and operators == viewers:
        hint = "two groups: who only looks, as the status page does, must not be able to hold nodes"
        raise BadSetting(f"agent.viewers: {viewers} is the group of operators too", hint=hint)
    return Callers(
        os.geteuid(), _find_uid(scheduler_user), _find_gid("operators", operators), _find_gid("viewers", viewers)
    )


def _find_uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _find_gid(setting: str, group: str | None) -> int | None:
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise BadSetting(f"agent.{setting}: there is no group {group}", hint=f"groupadd --system {group}") from None


STATUS_REQUESTS = ("why", "queue", "status")
SNAPSHOT = "picture"
"""The question of the status page and of metrics; `jobs_seen` is the instant whose jobs the asker has."""
FOR_ADMINS = {"ask": "plan"}
FOR_BROKERS = {"ask": "snapshot"}
"""The question of a broker of clusters, which everybody may ask: its answer has no names of users."""
NODE_REQUESTS = ("resume", "suspend", "resume_fail", "order", "release", "look")


@dataclass(frozen=True)
class NodeRequest:
    """What the scheduler's programs or an admin's command say: which of TELLS, of which nodes.

    `text` is the scheduler's file of jobs; with "order" what `format_order` makes. `asked_unix_s` is when the scheduler
    asked for these nodes, where somebody looks again whether they are up.
    """

    what: str
    nodes: tuple[str, ...]
    text: str
    asked_unix_s: float | None = None


def format_order(order: str, *, by: str, reason: str) -> str:
    """Return an admin's order as a text of `NodeRequest`."""
    return json.dumps({"order": order, "by": by, "reason": reason})


def parse_order(text: str) -> tuple[NodeOrder, str, str]:
    """Return order, by whom and why; BadInput for what `format_order` did not make."""
    said = parse_request(text.encode())
    order, by, reason = (said.get(name) for name in ("order", "by", "reason"))
    if not (isinstance(by, str) and isinstance(reason, str)) or order not in list(NodeOrder):
        raise BadInput("that is no order", hint=f"it has by, reason, and an order: {', '.join(sorted(NodeOrder))}")
    return NodeOrder(order), by, reason


NodeRequestSink = Callable[[NodeRequest], WakeReply | None]
"""Takes what was told, and returns at once what is promised of nodes that are to wake, None for all else. An
OffpeakError says that nothing will come of it."""
WakeableNodes = Callable[[], Iterable[str]]
"""Gives the nodes that the agent wakes by itself when jobs need them."""


@dataclass(frozen=True)
class AgentRequest:
    """A request and who makes it: their rights, and their name where they see their own jobs only."""

    request: dict[str, Any]
    rights: Rights
    user: str | None
    person: str = "root"

    @property
    def tells(self) -> bool:
        """Whether it is not asked but told."""
        return "tell" in self.request


def parse_request(line: bytes) -> dict[str, Any]:
    """Return the request; BadInput if it is no JSON object."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise BadInput("that is no request", hint='one line of JSON, such as {"ask": "status"}')
    return request


def make_reply(
    question: AgentRequest, published: StatusReply | None, hear: NodeRequestSink, wakes: WakeableNodes = tuple
) -> dict[str, Any]:
    """Return the answer; OffpeakError where there is none. `published` is None before the first cycle."""
    if question.tells:
        return _pass_on(question, hear)
    asked = question.request.get("ask")
    if asked not in STATUS_REQUESTS:
        known = (*STATUS_REQUESTS, SNAPSHOT, FOR_ADMINS["ask"], FOR_BROKERS["ask"])
        raise BadInput(f"{asked!r} cannot be asked", hint=f"ask: {', '.join(known)}")
    if published is None:
        raise not_ready()
    if asked == "why":
        return {"published": status_json(_explain_job(str(question.request.get("job", "")), published, question.user))}
    seen = published.seen_by(question.user)
    if asked == "status":
        return {"published": status_json(replace(seen, jobs=())), "wakes": sorted(wakes())}
    return {"published": status_json(seen)}


def jobs_seen(question: AgentRequest) -> float | None:
    """Return the instant whose jobs the asker of a picture has [Unix s]; BadInput for who may not see everything."""
    if not question.rights.sees_all:
        hint = "viewers below [agent] names the group of those who may, such as offpeak-viewers, the status page's"
        raise BadInput("only operators and viewers may see everything at once", hint=hint)
    try:
        return float(question.request["jobs_seen"])
    except (KeyError, TypeError, ValueError):
        return None


def not_ready() -> OffpeakError:
    """Return what is said before the first cycle."""
    return OffpeakError("the agent has just started and has seen nothing yet", hint="ask again in a minute")


def error_reply(problem: OffpeakError) -> dict[str, Any]:
    """Return an error as an answer."""
    return {"error": str(problem), "hint": problem.hint}


def _pass_on(question: AgentRequest, hear: NodeRequestSink) -> dict[str, Any]:
    what, nodes, text = (question.request.get(name, "") for name in ("tell", "nodes", "text"))
    if not question.rights.may_tell:
        raise BadInput("only the scheduler's user may tell the agent of nodes", hint="name it: user below [slurm]")
    if what not in NODE_REQUESTS or not isinstance(nodes, str) or not isinstance(text, str):
        raise BadInput(f"{what!r} cannot be told", hint=f"tell: {', '.join(NODE_REQUESTS)}, with nodes as a node set")
    names, asked_unix_s = expand(nodes), question.request.get("asked_unix_s")
    since = float(asked_unix_s) if isinstance(asked_unix_s, int | float) else None
    if what == "order":
        order, _, reason = parse_order(text)
        # Who ordered is what the kernel says, not what the request says.
        text = format_order(order, by=f"{ADMIN}{question.person}", reason=reason)
    reply = hear(NodeRequest(what, names, text, since))
    return {"nodes": list(names)} if reply is None else reply.to_json()


def _explain_job(job_id: str, published: StatusReply, user: str | None) -> StatusReply:
    # PBS's numbers end with the server's name, which nobody types.
    found = [job for job in published.jobs if job_id in (job.job_id, job.job_id.partition(".")[0])]
    if not found:
        hint = "it has ended, is held or is not in a partition of the agent; `squeue --job` knows more"
        raise BadInput(f"job {job_id}: the agent does not know it", hint=hint)
    if user is not None and found[0].user != user:
        raise BadInput(f"job {job_id} is another user's", hint="`offpeak queue` shows the jobs that are yours")
    return replace(published.seen_by(user), jobs=tuple(found))

"""What the agent answers to one question: a line of JSON in, a line of JSON out. Nothing here waits."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from offpeak.door.effect import ADMIN, TO_NODES
from offpeak.errors import BadInput, OffpeakError
from offpeak.machines.node_sets import expand
from power.agent.callers import Rights
from power.agent.published import Published, published_json
from power.agent.wake_reply import WakeReply

ASKS = ("why", "queue", "status")
PICTURE = "picture"
"""The question of the status page and of metrics; `jobs_seen` is the instant whose jobs the asker has."""
FOR_ADMINS = {"ask": "plan"}
FOR_BROKERS = {"ask": "snapshot"}
"""The question of a broker of clusters, which everybody may ask: its answer has no names of users."""
TELLS = ("resume", "suspend", "resume_fail", "order", "release", "look")


@dataclass(frozen=True)
class Told:
    """What the scheduler's programs or an admin's command say: which of TELLS, of which nodes.

    `text` is the scheduler's file of jobs; with "order" what `order_text` makes. `asked_unix_s` is when the scheduler
    asked for these nodes, where somebody looks again whether they are up.
    """

    what: str
    nodes: tuple[str, ...]
    text: str
    asked_unix_s: float | None = None


def order_text(order: str, *, by: str, reason: str) -> str:
    """Return an admin's order as a text of `Told`."""
    return json.dumps({"order": order, "by": by, "reason": reason})


def order_of(text: str) -> tuple[str, str, str]:
    """Return order, by whom and why; BadInput for what `order_text` did not make."""
    said = request_of(text.encode())
    order, by, reason = (said.get(name) for name in ("order", "by", "reason"))
    if not (isinstance(order, str) and isinstance(by, str) and isinstance(reason, str)) or order not in TO_NODES:
        raise BadInput("that is no order", hint=f"it has by, reason, and an order: {', '.join(sorted(TO_NODES))}")
    return order, by, reason


Hear = Callable[[Told], WakeReply | None]
"""Takes what was told, and returns at once what is promised of nodes that are to wake, None for all else. An
OffpeakError says that nothing will come of it."""
Wakes = Callable[[], Iterable[str]]
"""Gives the nodes that the agent wakes by itself when jobs need them."""


@dataclass(frozen=True)
class Question:
    """A request and who makes it: their rights, and their name where they see their own jobs only."""

    request: dict[str, Any]
    rights: Rights
    user: str | None
    person: str = "root"

    @property
    def tells(self) -> bool:
        """Whether it is not asked but told."""
        return "tell" in self.request


def request_of(line: bytes) -> dict[str, Any]:
    """Return the request; BadInput if it is no JSON object."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise BadInput("that is no request", hint='one line of JSON, such as {"ask": "status"}')
    return request


def answer(question: Question, published: Published | None, hear: Hear, wakes: Wakes = tuple) -> dict[str, Any]:
    """Return the answer; OffpeakError where there is none. `published` is None before the first cycle."""
    if question.tells:
        return _told(question, hear)
    asked = question.request.get("ask")
    if asked not in ASKS:
        known = (*ASKS, PICTURE, FOR_ADMINS["ask"], FOR_BROKERS["ask"])
        raise BadInput(f"{asked!r} cannot be asked", hint=f"ask: {', '.join(known)}")
    if published is None:
        raise just_started()
    if asked == "why":
        return {"published": published_json(_why(str(question.request.get("job", "")), published, question.user))}
    seen = published.seen_by(question.user)
    if asked == "status":
        return {"published": published_json(replace(seen, jobs=())), "wakes": sorted(wakes())}
    return {"published": published_json(seen)}


def jobs_seen(question: Question) -> float | None:
    """Return the instant whose jobs the asker of a picture has [Unix s]; BadInput for who may not see everything."""
    if not question.rights.sees_all:
        hint = "viewers below [agent] names the group of those who may, such as offpeak-viewers, the status page's"
        raise BadInput("only operators and viewers may see everything at once", hint=hint)
    try:
        return float(question.request["jobs_seen"])
    except (KeyError, TypeError, ValueError):
        return None


def just_started() -> OffpeakError:
    """Return what is said before the first cycle."""
    return OffpeakError("the agent has just started and has seen nothing yet", hint="ask again in a minute")


def error_of(problem: OffpeakError) -> dict[str, Any]:
    """Return an error as an answer."""
    return {"error": str(problem), "hint": problem.hint}


def _told(question: Question, hear: Hear) -> dict[str, Any]:
    what, nodes, text = (question.request.get(name, "") for name in ("tell", "nodes", "text"))
    if not question.rights.may_tell:
        raise BadInput("only the scheduler's user may tell the agent of nodes", hint="name it: user below [slurm]")
    if what not in TELLS or not isinstance(nodes, str) or not isinstance(text, str):
        raise BadInput(f"{what!r} cannot be told", hint=f"tell: {', '.join(TELLS)}, with nodes as a node set")
    names, asked_unix_s = expand(nodes), question.request.get("asked_unix_s")
    since = float(asked_unix_s) if isinstance(asked_unix_s, int | float) else None
    if what == "order":
        order, _, reason = order_of(text)
        # Who ordered is what the kernel says, not what the request says.
        text = order_text(order, by=f"{ADMIN}{question.person}", reason=reason)
    reply = hear(Told(what, names, text, since))
    return {"nodes": list(names)} if reply is None else reply.to_json()


def _why(job_id: str, published: Published, user: str | None) -> Published:
    # PBS's numbers end with the server's name, which nobody types.
    found = [job for job in published.jobs if job_id in (job.job_id, job.job_id.partition(".")[0])]
    if not found:
        hint = "it has ended, is held or is not in a partition of the agent; `squeue --job` knows more"
        raise BadInput(f"job {job_id}: the agent does not know it", hint=hint)
    if user is not None and found[0].user != user:
        raise BadInput(f"job {job_id} is another user's", hint="`offpeak queue` shows the jobs that are yours")
    return replace(published.seen_by(user), jobs=tuple(found))

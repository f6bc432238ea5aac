"""Requests to the agent and their replies: one line of JSON in, one line of JSON out, by the rights of the caller.

No function blocks. The kernel names the caller, whose rights allow queries, reports of nodes, or holds. To a scheduler
that requests nodes the agent promises only the wakes that it can keep; `deploy/slurm/offpeak-resume` wakes the nodes
that are not accepted.
"""

import grp
import json
import math
import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from offpeak.door.effect import ADMIN, SCHEDULER, Effect, Refusal
from offpeak.errors import BadInput, BadSetting, OffpeakError
from offpeak.machines.inventory import InventoryNode
from offpeak.machines.node_sets import expand
from offpeak.model.constants import DAY_S
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.model.time_range import TimeRange
from offpeak.model.units import HIGHEST_POWER_W
from offpeak.plugin.scheduler.job import LATEST_S, Job, array_of
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.power.lifecycle.decisions import describe_fault, find_due_order, make_effect
from offpeak.power.lifecycle.node_context import NodeContext
from offpeak.power.lifecycle.node_record import ASLEEP, DesiredState, DesiredStateChange, Instant, NodeRecord
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.power.live.cluster_snapshot import NodeMemory
from offpeak.services.accounts.job_bills import BillQuery
from offpeak.services.agent.status import FOR_ADMINS, FOR_BROKERS, SNAPSHOT, JobStatus, StatusReply, status_json
from offpeak.services.unix_socket import Peer

ROOT = 0


@dataclass(frozen=True)
class Rights:
    """`may_tell`: the caller may report and order nodes. `may_hold`: hold and release them. `sees_all`: see any job."""

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
        """Return the rights of the peer."""
        may_tell = peer.uid in (ROOT, self.own_uid, self.scheduler_uid)
        may_hold = may_tell or self.operators_gid in peer.groups
        return Rights(may_tell, may_hold, sees_all=may_hold or self.viewers_gid in peer.groups)


def find_callers(scheduler_user: str, operators: str | None, viewers: str | None = None) -> Callers:
    """Return the users and groups with rights. Raises BadSetting for unknown groups, or one group for both."""
    if operators and operators == viewers:
        hint = "name two groups: viewers, such as the status page, must not be able to hold nodes"
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


WHY = "why"
STATUS_REQUESTS = (WHY, "queue", "status")
NODE_REQUESTS = ("resume", "suspend", "resume_fail", "order", "release", "look")
HOLD, END_HOLD = "hold", "end_hold"
CYCLE = "cycle"


@dataclass(frozen=True)
class NodeRequest:
    """A request of the scheduler's programs or of an admin's command: one of NODE_REQUESTS, and the nodes.

    `text` is the scheduler's file of jobs; for "order" it is made by `format_order`. `requested_s_ago` is how long ago
    the scheduler requested these nodes, if a program checks again whether they are up.
    """

    what: str
    nodes: tuple[str, ...]
    text: str
    requested_s_ago: float | None = None


def format_order(order: str, *, by: str, reason: str) -> str:
    """Return an admin's order as a text of `NodeRequest`."""
    return json.dumps({"order": order, "by": by, "reason": reason})


def parse_order(text: str) -> tuple[NodeOrder, str, str]:
    """Return the order, its user and its reason. Raises BadInput unless `format_order` made the text."""
    fields = parse_request(text.encode())
    order, by, reason = (fields.get(name) for name in ("order", "by", "reason"))
    if not (isinstance(by, str) and isinstance(reason, str)) or order not in list(NodeOrder):
        raise BadInput("that is not an order", hint=f"it has by, reason, and an order: {', '.join(sorted(NodeOrder))}")
    return NodeOrder(order), by, reason


@dataclass(frozen=True)
class HoldRequest:
    """A request of `offpeak nodes NAME hold` or `release`; `by` is the user whom the kernel names."""

    what: str
    node: str
    by: str
    reason: str = ""
    until_unix_s: float | None = None
    take_over: bool = False


def format_hold(reason: str, until_unix_s: float | None, *, take_over: bool) -> str:
    """Return the text of a request for a hold or its end."""
    return json.dumps({"reason": reason, "until_unix_s": until_unix_s, "take_over": take_over})


def parse_hold_request(request: dict[str, Any], by: str) -> HoldRequest:
    """Return the request. Raises BadInput if it is no request for a hold or its end."""
    fields = parse_request(str(request.get("text", "")).encode())
    reason, until_unix_s, take_over = (fields.get(name) for name in ("reason", "until_unix_s", "take_over"))
    node = request.get("nodes")
    fits = isinstance(node, str) and isinstance(reason, str) and isinstance(until_unix_s, int | float | None)
    if not fits or not isinstance(take_over, bool):
        raise BadInput("that is not a hold", hint="it has reason, until_unix_s and take_over")
    return HoldRequest(str(request["tell"]), str(node), by, str(reason), until_unix_s, take_over)


CAP = "cap"
LONGEST_EVENT_S = 366 * DAY_S
"""A longer event or cap is a mistake."""
MOST_W = int(HIGHEST_POWER_W)


@dataclass(frozen=True)
class CapRequest:
    """A request of `offpeak cap`: a cap for so long, the former limits if `cap_w` is None, without nodes a list."""

    nodes: tuple[str, ...]
    by: str
    cap_w: int | None = None
    for_s: int | None = None
    reason: str = ""


def parse_cap_request(request: dict[str, Any], by: str) -> CapRequest:
    """Return the request. Raises BadInput if it is no request for caps."""
    fields = parse_request(str(request.get("text", "")).encode())
    nodes, cap_w, for_s, reason = (*map(request.get, ("nodes",)), *map(fields.get, ("cap_w", "for_s", "reason")))
    bounds = ((cap_w, MOST_W), (for_s, LONGEST_EVENT_S))
    whole = all(number is None or (isinstance(number, int) and 0 < number <= most) for number, most in bounds)
    if not isinstance(nodes, str) or not isinstance(reason, str) or not whole or (cap_w is None) != (for_s is None):
        hint = "it has cap_w and for_s, above 0 and at most a year, or both null, and reason"
        raise BadInput("that is not a cap", hint=hint)
    return CapRequest(expand(nodes) if nodes else (), by, cap_w, for_s, reason)


SWEEP = "sweep"
"""The request that passes a collector's sweep on; without a sweep it only checks the token."""
SHED = "shed"


@dataclass(frozen=True)
class ShedRequest:
    """A request of `offpeak shed`: an event of so many seconds, to draw at most `cap_w`, or a `share` less than now.

    `from_unix_s` is its begin, None for now. Without `for_s` the request ends the event that was ordered before.
    """

    by: str
    share: float | None = None
    cap_w: int | None = None
    from_unix_s: float | None = None
    for_s: int | None = None
    reason: str = ""


def parse_shed_request(request: dict[str, Any], by: str) -> ShedRequest:
    """Return the request. Raises BadInput if it is no request for an event."""
    fields = parse_request(str(request.get("text", "")).encode())
    share, cap_w, from_unix_s, for_s = map(fields.get, ("share", "cap_w", "from_unix_s", "for_s"))
    numbers = (share, cap_w, from_unix_s, for_s)
    are_numbers = all(each is None or (isinstance(each, int | float) and math.isfinite(each)) for each in numbers)
    is_whole = all(each is None or (isinstance(each, int) and not isinstance(each, bool)) for each in (cap_w, for_s))
    fits = are_numbers and is_whole and (share is None or 0 < share < 1) and (cap_w is None or cap_w >= 0)
    fits = fits and (for_s is None or 0 < for_s <= LONGEST_EVENT_S) and (cap_w is None or cap_w <= MOST_W)
    fits = fits and (from_unix_s is None or abs(from_unix_s) <= LATEST_S)
    fits = fits and (for_s is not None) != (share is None and cap_w is None)
    if not fits:
        hint = "it has for_s above 0 and at most a year, and cap_w or a share between 0 and 1; or neither"
        raise BadInput("that is not an event", hint=hint)
    return ShedRequest(by, share, cap_w, from_unix_s, for_s, str(fields.get("reason", "")))


@dataclass(frozen=True)
class WakeReply:
    """The decision about each node with its reason.

    The agent wakes `accepted` nodes; of these `left` stay off on purpose, and `waiting` wait for the door's pace. It
    does not promise to wake `refused` nodes.
    """

    accepted: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the reply. A refusal has no "nodes", by which older programs know that all nodes are accepted."""
        kinds = {"left": dict(self.left), "waiting": dict(self.waiting), "refused": dict(self.refused)}
        reply: dict[str, Any] = {kind: nodes for kind, nodes in kinds.items() if nodes}
        if not self.refused:
            return {"nodes": list(self.accepted), **reply}
        node, why = next(iter(self.refused.items()))
        more = f" (and {len(self.refused) - 1} more)" if len(self.refused) > 1 else ""
        error = {"error": f"{node}: {why}{more}", "hint": "the resume program has to wake it"}
        return {**error, "accepted": list(self.accepted), **reply}


NodeRequestSink = Callable[[NodeRequest], WakeReply | None]
"""Applies a request; returns at once the promised wakes, None for others. Raises OffpeakError if it refuses."""


@dataclass(frozen=True)
class AgentRequest:
    """A request with the rights of its caller, and the name of a caller who sees only their own jobs."""

    request: dict[str, Any]
    rights: Rights
    user: str | None
    person: str = "root"


def parse_request(line: bytes) -> dict[str, Any]:
    """Return the request. Raises BadInput if it is no JSON object."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise BadInput("this is not a request", hint='one line of JSON, such as {"ask": "status"}')
    return request


def make_reply(
    request: AgentRequest,
    published: StatusReply | None,
    receive: NodeRequestSink,
    wakes: Callable[[], Iterable[str]] = tuple,
    ended: Callable[[], Iterable[Job]] = tuple,
) -> dict[str, Any]:
    """Return the reply. Raises OffpeakError if there is none. `published` is None before the first cycle.

    `wakes` gives the nodes that the agent wakes by itself when jobs need them, `ended` the jobs that the scheduler
    shows although they have ended, or just end.
    """
    if "tell" in request.request:
        return _pass_on(request, receive)
    question = request.request.get("ask")
    if question not in STATUS_REQUESTS:
        known = (*STATUS_REQUESTS, BILLS, SNAPSHOT, FOR_ADMINS["ask"], FOR_BROKERS["ask"])
        raise BadInput(f"{question!r} is not a known query", hint=f"ask: {', '.join(known)}")
    if published is None:
        raise not_ready()
    if question == WHY:
        job_id = str(request.request.get("job", ""))
        user = request.user
        found = _find_jobs(job_id, published) or _find_jobs(array_of(job_id), published)
        if not found:
            just = [job for job in ended() if job_id in (job.job_id, job.job_id.partition(".")[0])]
            if just and user in (None, just[0].user):
                ran, hint = (
                    just[0].start_s is not None,
                    "ask again in some minutes: its energy and cost are booked then",
                )
                what = "has ended, and is not booked yet" if ran else "has ended, and never ran"
                raise BadInput(f"job {job_id} {what}", hint=hint if ran else "the scheduler knows why")
            hint = "it has ended or is not in a partition of the agent; `squeue --job` knows more"
            raise BadInput(f"job {job_id}: the agent does not know it", hint=hint)
        if user is not None and found[0].user != user:
            raise BadInput(f"job {job_id} is another user's", hint="`offpeak queue` shows the jobs that are yours")
        return {"published": status_json(replace(published.seen_by(user), jobs=tuple(found)))}
    seen = published.seen_by(request.user)
    if question == "status":
        return {"published": status_json(replace(seen, jobs=())), "wakes": sorted(wakes())}
    return {"published": status_json(seen)}


BILLS = "bills"
"""The query for the bills of ended jobs: "job", "user", "from_unix_s" and "until_unix_s" are optional."""


def parse_bill_query(request: AgentRequest) -> BillQuery:
    """Return the query; a caller without rights gets their own jobs. Raises BadInput for what is no query."""
    fields = request.request
    try:
        span = TimeRange(float(fields.get("from_unix_s", 0.0)), float(fields.get("until_unix_s", math.inf)))
    except (TypeError, ValueError, OverflowError):
        raise BadInput("from_unix_s and until_unix_s are Unix seconds", hint="leave them out for all jobs") from None
    job, user = fields.get("job"), fields.get("user")
    texts = [text for text in (job, user) if text is not None]
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        raise BadInput("job and user are texts", hint="leave them out for all jobs")
    return BillQuery(span, user if request.user is None else request.user, job)


def jobs_seen(request: AgentRequest) -> float | None:
    """Return the time of the view whose jobs the caller has [Unix s]. Raises BadInput if it may not see all jobs."""
    if not request.rights.sees_all:
        hint = "viewers below [agent] names the group of those who may, such as offpeak-viewers, the status page's"
        raise BadInput("only operators and viewers may see everything at once", hint=hint)
    try:
        return float(request.request["jobs_seen"])
    except (KeyError, TypeError, ValueError):
        return None


def not_ready() -> OffpeakError:
    """Return the error of an agent that has not completed a cycle."""
    return OffpeakError("the agent has just started and has read nothing yet", hint="ask again in a minute")


def _pass_on(request: AgentRequest, receive: NodeRequestSink) -> dict[str, Any]:
    what, nodes, text = (request.request.get(name, "") for name in ("tell", "nodes", "text"))
    if not request.rights.may_tell:
        raise BadInput("only the scheduler's user may report nodes to the agent", hint="name it: user below [slurm]")
    if what not in NODE_REQUESTS or not isinstance(nodes, str) or not isinstance(text, str):
        raise BadInput(
            f"{what!r} is not a known request", hint=f"tell: {', '.join(NODE_REQUESTS)}, with nodes as a node set"
        )
    names, ago_s = expand(nodes), request.request.get("asked_s_ago")
    since_s = float(ago_s) if isinstance(ago_s, int | float) else None
    if what == "order":
        order, _, reason = parse_order(text)
        # The user is the one that the kernel names, not one in the request.
        text = format_order(order, by=f"{ADMIN}{request.person}", reason=reason)
    reply = receive(NodeRequest(what, names, text, since_s))
    return {"nodes": list(names)} if reply is None else reply.to_json()


def _find_jobs(job_id: str, published: StatusReply) -> list[JobStatus]:
    # A job number of PBS ends with the name of the server, which users leave out.
    return [job for job in published.jobs if job_id in (job.job_id, job.job_id.partition(".")[0])]


PACING = frozenset({"wakes", "per_rack", "wake_ramp"})
"""The limits of the door that end by themselves within minutes."""
POLLED_AGAIN = "observed_fresh"
"""The limit that the next poll lifts: the state is known, and was read a while ago."""


@dataclass(frozen=True)
class WakeContext:
    """The state of the site when the scheduler requests nodes.

    `problem` is why no wake can be promised, "" if nothing is wrong. `nodes` are the scheduler's by its latest view,
    which was requested `view_age_s` ago. `memories` are what earlier rounds learned about nodes, by name. `context_of`
    gives the context of a node, and `foresee` is that of the door.
    """

    problem: str
    now: Instant
    machines: Mapping[str, InventoryNode]
    records: Mapping[str, NodeRecord]
    nodes: Mapping[str, Node]
    view_age_s: float
    memories: Mapping[str, NodeMemory]
    context_of: Callable[[str], NodeContext]
    predict_refusal: Callable[[Effect], Refusal | None]


def make_wake_reply(names: Iterable[str], wake_context: WakeContext, requested_s_ago: float | None = None) -> WakeReply:
    """Return the wakes that are promised.

    `requested_s_ago` is the age of the first request for the nodes, if this is a repetition: a node that the scheduler
    has not been awaiting since then is left unchanged, and so is one that came up and was put to sleep again.
    """
    accepted: list[str] = []
    left, waiting, refused = dict[str, str](), dict[str, str](), dict[str, str]()
    for name in names:
        if why := _reason_to_leave(name, wake_context, requested_s_ago):
            left[name] = why
        elif why := wake_context.problem or _reason_unknown(name, wake_context):
            refused[name] = why
            continue
        elif refusal := _find_refusal(wake_context.records[name], wake_context):
            if refusal.rule not in PACING or refusal.error_kind:
                refused[name] = refusal.message
                continue
            waiting[name] = refusal.message
        accepted.append(name)
    return WakeReply(tuple(accepted), left, waiting, refused)


def _reason_to_leave(name: str, wake_context: WakeContext, requested_s_ago: float | None) -> str:
    record, node = wake_context.records.get(name), wake_context.nodes.get(name)
    if record is not None and record.hold is not None and record.hold.lasts(wake_context.now.unix_s):
        return f"held by {record.hold.owner}: {record.hold.reason}"
    if requested_s_ago is None or (node is not None and node.is_awaited):
        return ""
    memory = wake_context.memories.get(name)
    if memory is not None and memory.has_slept_since_up(wake_context.now.unix_s - requested_s_ago):
        return "it came up, and offpeak has put it to sleep again"
    if wake_context.view_age_s >= requested_s_ago:
        return ""
    if node is None or node.use is NodeUse.UNKNOWN:
        return ""
    return "the scheduler does not wait for it any more"


def _reason_unknown(name: str, wake_context: WakeContext) -> str:
    record, node = wake_context.records.get(name), wake_context.nodes.get(name)
    if name not in wake_context.machines:
        return "is not managed by offpeak: it is not among nodes below [agent]"
    if node is None or node.use is NodeUse.UNKNOWN:
        return "the scheduler does not show it" if node is None else f"the scheduler says {node.native_state}"
    if record is None or record.observed.state is NodeState.UNKNOWN:
        problem = record.observed.problem if record else ""
        return f"its state is not known: {problem}" if problem else "its state is not known"
    return "its BMC is not enrolled" if wake_context.machines[name].enrolled is None else ""


def _find_refusal(record: NodeRecord, wake_context: WakeContext) -> Refusal | None:
    """Return why a node of known state would not be woken now, None if it would be, or is up."""
    now, context = wake_context.now, wake_context.context_of(record.node)
    desired = DesiredState(NodeOrder.ON, SCHEDULER, now.unix_s, "the scheduler is powering it up")
    record = apply_event(record, DesiredStateChange(desired), now, context)
    if why := describe_fault(record):
        return Refusal("fault", why)
    attempts, pending = record.attempts, record.attempts.pending
    if record.observed.state not in ASLEEP or (pending is not None and pending.order is NodeOrder.ON):
        return None
    if now.monotonic_s < attempts.next_try_s:
        return attempts.refusal or Refusal("pause", f"tried {attempts.tries} times, then a pause: {attempts.failure}")
    order = find_due_order(record, now, context)
    if order is None:
        return None if pending is not None else Refusal("rungs", "its hardware has no way to wake it")
    refusal = wake_context.predict_refusal(make_effect(record, order, now))
    return None if refusal is not None and refusal.rule == POLLED_AGAIN else refusal

"""Carries out the requests of admins and of the scheduler's programs: orders, holds, whole cycles, caps, grid events.

`requests` parses them and makes the replies. An order to a node becomes the desired state of its record; the next round
of nodes takes it through the door.
"""

import asyncio
import time
from typing import Any

from offpeak.door.effect import ADMIN, Effect, Hold, Mode, Refusal, refused_by_mode
from offpeak.door.journal import HistoryEntry
from offpeak.errors import BadInput, OffpeakError
from offpeak.machines.node_sets import fold
from offpeak.model.facility import PowerCap
from offpeak.model.node_states import ACTIVE
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.door.cap_orders import CapOrderer
from offpeak.power.interlocks.preconditions import HELD, KEPT_AWAKE
from offpeak.power.lifecycle.node_record import DesiredState, DesiredStateChange, HoldChange, Release, WakesElsewhere
from offpeak.power.live.cycle_watch import describe_cycle
from offpeak.power.live.observe import observe_node
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.grid_event import target_w
from offpeak.services.agent.loop import LOG
from offpeak.services.agent.requests import (
    HOLD,
    CapRequest,
    HoldRequest,
    NodeRequest,
    ShedRequest,
    WakeContext,
    WakeReply,
    make_wake_reply,
    parse_order,
)


def receive(agent: SiteAgent, request: NodeRequest) -> WakeReply | None:
    """Apply a request about nodes, and start a round of nodes. Raises BadInput for an order to a node that offpeak
    does not manage.

    Returns the wakes that are promised, for nodes that the scheduler wants up.
    """
    LOG.info("request for %s: %s", ",".join(request.nodes), request.what)
    if request.what == "order":
        _receive_order(agent, request)
    if request.what == "release":
        for node in request.nodes:
            agent.power.receive(node, Release())
    reply = None
    if request.what == "resume":
        reply = make_wake_reply(request.nodes, _wake_context(agent), request.requested_s_ago)
        if request.requested_s_ago is None:
            agent.power.note_woken(request.nodes)
        for node in reply.refused.keys() & agent.power.records.nodes.keys():
            agent.power.receive(node, WakesElsewhere())
    agent.look_soon()
    return reply


def _receive_order(agent: SiteAgent, request: NodeRequest) -> None:
    order, by, reason = parse_order(request.text)
    for node in request.nodes:
        _check_can_be_ordered(agent, node)
    unrecorded = None if order is NodeOrder.ON else agent.ledger.problem()
    if unrecorded is not None and unrecorded.message:
        # The door would refuse the order in the next round, when the admin no longer waits for the reply.
        text = f"{fold(request.nodes)}: nothing is switched off that cannot be recorded: {unrecorded.message}"
        raise OffpeakError(text, hint=unrecorded.hint)
    for node in request.nodes:
        effect = Effect(node, order, by, reason)
        if refusal := _lasting_refusal(agent, effect):
            agent.ledger.write_refusal(effect, refusal, agent.now_unix_s)
            raise OffpeakError(f"{refusal.message} (rule {refusal.rule})", hint=refusal.hint)
    for node in request.nodes:
        agent.power.receive(node, DesiredStateChange(DesiredState(order, by, agent.now_unix_s, reason)))


def _check_can_be_ordered(agent: SiteAgent, node: str) -> None:
    if node not in agent.site.machines:
        raise BadInput(f"{node}: is not managed by offpeak", hint="add it to nodes below [agent]")
    if node not in agent.power.records.nodes:
        hint = "it has just started, or has just got the node: try again in a minute"
        raise OffpeakError(f"{node}: the agent has not looked at it yet", hint=hint)


def _lasting_refusal(agent: SiteAgent, effect: Effect) -> Refusal | None:
    """Return the refusal of an admin's order that no later round would change: by mode, hold or site's contract."""
    # Until the scheduler has been read, the partitions of a node and with them their own modes are not known.
    if agent.observer.latest or not agent.modes.own:
        mode = agent.modes.of(agent.observer.partitions_of_node(effect.subject))
        if refusal := refused_by_mode(mode, effect, put_to_sleep=False):
            return refusal
    refusal = agent.open_orders.nodes.door.predict_refusal(effect) if agent.open_orders else None
    return refusal if refusal and refusal.rule in (HELD, KEPT_AWAKE) else None


def _wake_context(agent: SiteAgent) -> WakeContext:
    view, orders = agent.observer.latest, agent.open_orders
    problem = "the last round of nodes was too long ago" if agent.power_loop.is_late else ""
    if not agent.ledger.may_act():
        problem = "this agent does not hold the lease of the ledger now"
    if orders is None:
        problem = "the ledger has not answered since the start, or since the settings were read"
    return WakeContext(
        problem=agent.power_loop.wake_problem or problem,
        now=agent.power.now,
        machines=agent.site.machines,
        records=agent.power.records.nodes,
        nodes={node.name: node for node in view.nodes} if view else {},
        view_age_s=time.monotonic() - agent.observer.begun_s,
        memories=agent.power.memories,
        context_of=agent.power.context_of,
        predict_refusal=orders.nodes.door.predict_refusal if orders else lambda _: None,
    )


def wakes(agent: SiteAgent) -> tuple[str, ...]:
    """Return the nodes that the agent wakes by itself when jobs need them; none while it cannot for long."""
    if not agent.power_loop.wakes_nodes or not agent.ledger.may_act():
        return ()
    modes, partitions_of = agent.modes, agent.observer.partitions_of_node
    return tuple(node for node in agent.site.machines if modes.of(partitions_of(node)) is Mode.ACTIVE)


def ended_jobs(agent: SiteAgent) -> tuple[Job, ...]:
    """Return the jobs of the latest view that have ended, or just end."""
    jobs = agent.observer.latest.jobs if agent.observer.latest else ()
    return tuple(job for job in jobs if job.state in (JobState.ENDED, JobState.ENDS))


async def change_hold(agent: SiteAgent, request: HoldRequest) -> dict[str, Any]:
    """Begin or end a hold, and return the reply once it is in force. Raises OffpeakError if it is not."""
    node, now_unix_s = request.node, agent.power.now.unix_s
    if node not in agent.site.by_name:
        raise BadInput(f"{node}: the agent's inventory has no such node", hint="`systemctl reload offpeak-agent`")
    if request.what == HOLD:
        hold = Hold(request.by, request.reason, request.until_unix_s)
        await asyncio.to_thread(agent.ledger.hold, node, hold, now_unix_s)
        agent.power.set_hold(node, hold)
        agent.power.receive(node, HoldChange(hold))
        return {"by": request.by, "note": await _settle_order(agent, node)}
    by = f"{ADMIN}{request.by}"
    found = await asyncio.to_thread(agent.ledger.release, node, by, now_unix_s, take_over=request.take_over)
    agent.power.set_hold(node, None)
    agent.power.receive(node, Release())
    agent.look_soon()
    return {"by": request.by, "owner": found.owner if found else None, "reason": found.reason if found else ""}


async def _settle_order(agent: SiteAgent, node: str) -> str:
    """Wait for the order that is under way, and return its outcome, "" for none."""
    orders = agent.open_orders
    if orders is None:
        return ""
    history = orders.nodes.door.history
    before = _open_entry(history.of_subject(node))
    await orders.nodes.door.settle(node)
    await orders.scheduler.door.settle(node)
    after = history.of_subject(node)[-1:]
    if before is None or not after or after[0].number != before.number or after[0].answer is None:
        return ""
    return f"{before.effect.order} by {before.effect.by} was under way before: {after[0].answer.message}"


def begin_cycle(agent: SiteAgent, node: str, by: str) -> tuple[str, ...]:
    """Let a node go through a whole cycle, and return its partitions. Raises OffpeakError if it cannot now."""
    _check_can_be_ordered(agent, node)
    if refusal := _lasting_refusal(agent, Effect(node, NodeOrder.SOFT_OFF, f"{ADMIN}{by}", "its whole cycle")):
        raise BadInput(refusal.message, hint=refusal.hint)
    mode = agent.modes.of(agent.observer.partitions_of_node(node))
    if mode is not Mode.ACTIVE:
        raise BadInput(f"{node}: in mode {mode} it would not be switched", hint='set mode = "active" below [agent]')
    view, traits, watch = agent.observer.latest, agent.observer.traits, agent.power.watch
    known = {each.name: each for each in view.nodes} if view else {}
    if traits is None or node not in known:
        raise OffpeakError(f"{node}: the scheduler does not show it", hint="`offpeak status` says why")
    if traits.power_terms is None:
        raise BadInput(f"{traits.name} does not power nodes on and off itself", hint="no cycle has to be watched there")
    if watch.next_step:
        raise BadInput(describe_cycle(watch).text, hint="wait until it ends: `offpeak status` shows its progress")
    observed = observe_node(known[node], agent.power.records.nodes[node], agent.power.now, switchable=True)
    if observed.node.use is not NodeUse.FREE or observed.state != ACTIVE or not observed.is_ours:
        is_used = observed.node.use is NodeUse.USED and observed.is_on
        why = "a job runs there" if is_used else f"it is {observed.power}, and {observed.node.native_state}"
        raise BadInput(f"{node}: {why}", hint="name a node that is up, idle and open: `sinfo --states=idle`")
    agent.power.begin_cycle(node, f"{ADMIN}{by}")
    agent.look_soon()
    return known[node].partitions


async def order_caps(agent: SiteAgent, request: CapRequest) -> dict[str, Any]:
    """Carry out an admin's order about caps, or list them without one, and return the reply."""
    if not request.nodes:
        return {"caps": [cap._asdict() for cap in agent.node_caps.status()]}
    for node in request.nodes:
        if node not in agent.site.machines:
            raise BadInput(f"{node}: is not managed by offpeak", hint="add it to nodes below [agent]")
    until_unix_s = agent.now_unix_s + (request.for_s or 0)
    orderer = CapOrderer(f"{ADMIN}{request.by}", request.reason, until_unix_s)
    return await agent.node_caps.order(request.nodes, request.cap_w, orderer)


async def order_event(agent: SiteAgent, request: ShedRequest) -> dict[str, Any]:
    """Order or end a grid event, and return the reply. Raises BadInput for what cannot be ordered."""
    await agent.caps.load_ordered()
    if request.for_s is None:
        ended = await agent.caps.order(None)
        return {"cap_w": None, "ended": ended, "has_file": agent.site.settings.plan.events is not None}
    now_s = agent.now_unix_s
    from_s = int(max(request.from_unix_s or now_s, now_s))
    measured_w = agent.meters.node_watts
    cap_w = target_w(request.share, request.cap_w, agent.site.machines, measured_w)
    await agent.caps.order(PowerCap(from_s, from_s + request.for_s, cap_w, request.reason, f"{ADMIN}{request.by}"))
    draw_w = sum(measured_w.values()) if measured_w else None
    until_s, mode = from_s + request.for_s, str(agent.modes.usual)
    return {"cap_w": cap_w, "from_s": from_s, "until_s": until_s, "draw_w": draw_w, "mode": mode}


def _open_entry(entries: tuple[HistoryEntry, ...]) -> HistoryEntry | None:
    return entries[-1] if entries and entries[-1].answer is None else None

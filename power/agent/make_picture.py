"""The picture of an agent, made when its page or a metrics scrape asks for it."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, tzinfo

from offpeak.model.node_class import NodeClass, SleepDepth
from offpeak.model.node_states import OFF, STANDBY
from offpeak.prices.peak import Peak
from power.agent.agent import Agent
from power.agent.picture import ErrorSaid, NodeSaid, Picture, SlotSaid
from power.agent.publish import published
from power.lifecycle.node_record import Instant, NodeRecord, NodeState, SchedulerState, make_state_row
from predictors.price_curve import PriceCurve

DEPTH_OF = {NodeState.STANDBY: STANDBY, NodeState.OFF: OFF}


def picture_of(agent: Agent, jobs_seen_unix_s: float | None) -> Picture | None:
    """Return the picture, None before there is anything; without the jobs if they are still those of that instant."""
    seen = agent.facts is not None and agent.facts.now_s == jobs_seen_unix_s
    said = published(agent, with_jobs=not seen)
    if said is None:
        return None
    curve, zone, now = agent.prices.curve, agent.parts.zone, agent.power.now
    day_unix_s, month_unix_s = beginnings(now.unix_s, zone)
    counts = Counter(str(job.state) for job in agent.facts.jobs) if agent.facts else Counter[str]()
    watts = agent.meters.node_watts
    return Picture(
        published=said,
        zone=str(zone),
        day_unix_s=day_unix_s,
        month_unix_s=month_unix_s,
        job_counts=tuple(sorted(counts.items())),
        slots=slots_said(curve) if curve else (),
        prices_until_unix_s=curve.series.end_s if curve else None,
        nodes=tuple(
            node_said(life, now, watts, agent.parts.node_class(node)) for node, life in agent.power.lives.nodes.items()
        ),
        errors=(*_price_error(curve), *agent.accounts.errors),
        jobs_left_out=seen,
    )


def node_said(life: NodeRecord, now: Instant, watts: Mapping[str, float], node_class: NodeClass | None) -> NodeSaid:
    """Return what is shown of a node."""
    recorded, seen = make_state_row(life, now), life.seen
    measured_w = watts.get(life.node)
    return NodeSaid(
        node=life.node,
        state=recorded.observed,
        word="" if life.word is None else str(life.word),
        desired=recorded.desired,
        watts=modelled_w(life, node_class) if measured_w is None else measured_w,
        measured=measured_w is not None,
        idle_watts=None if node_class is None else node_class.idle_w,
        since_unix_s=seen.since_unix_s,
        by=seen.by,
        why="; ".join(filter(None, (seen.trouble if seen.state is NodeState.UNKNOWN else "", recorded.why))),
        held=life.hold is not None and life.hold.lasts(now.unix_s),
    )


def modelled_w(life: NodeRecord, node_class: NodeClass | None) -> float | None:
    """Return what such a node draws in its state; None where that hangs on its job, and where nobody knows."""
    if node_class is None or not node_class.depths:
        return None
    state = life.seen.state
    if state is NodeState.ON:
        return None if life.word in (None, SchedulerState.BUSY) else node_class.idle_w
    depth = node_class.find_depth(DEPTH_OF.get(state, node_class.depths[-1].depth))
    return None if depth is None else _depth_w(state, depth)


def _depth_w(state: NodeState, depth: SleepDepth) -> float | None:
    draws = {NodeState.GOING_DOWN: depth.enter.power_w, NodeState.BOOTING: depth.leave.power_w}
    asleep_w = depth.power_w if state in DEPTH_OF else None
    return draws.get(state, asleep_w)


def slots_said(curve: PriceCurve) -> tuple[SlotSaid, ...]:
    """Return the curve interval by interval."""
    low, high = curve.range_80
    columns = (curve.series.start_s, curve.series.value, low, high, curve.peak)
    rows = zip(*(column.tolist() for column in columns), curve.basis, strict=True)
    return tuple(
        SlotSaid(from_s, _known(price), _known(below), _known(above), _on_peak(peak), basis)
        for from_s, price, below, above, peak, basis in rows
    )


def beginnings(unix_s: float, zone: tzinfo) -> tuple[float, float]:
    """Return when the local day and the local month began [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return today.timestamp(), today.replace(day=1).timestamp()


def _price_error(curve: PriceCurve | None) -> tuple[ErrorSaid, ...]:
    if curve is None or not math.isfinite(curve.mae):
        return ()
    return (ErrorSaid("price", curve.series.unit, curve.mae, curve.outcomes),)


def _on_peak(peak: int) -> bool | None:
    return None if peak == Peak.UNKNOWN else peak == Peak.ON_PEAK


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

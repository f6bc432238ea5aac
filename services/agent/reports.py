"""The reports of the agent, made on request: status of a cycle, snapshot for page and metrics, report to brokers.

Of each job the status has its place in the queue, why it waits, its likely start, and the expected saving. The report
to brokers is made in a thread, once for each reading of the scheduler.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from offpeak.errors import OffpeakError
from offpeak.ledger.rows import DecisionRecord, SavingRecord
from offpeak.model.node_class import NodeClass, SleepDepth
from offpeak.model.node_states import OFF, STANDBY
from offpeak.model.step_series import Series, merge
from offpeak.prices.peak import Peak
from plugin.federation.site_report import Curve, SiteReport, WaitTable, make_curve
from plugin.queue_hook.facts import QueueFacts, QueueRules, resource_pool
from plugin.queue_hook.positions import QueuePosition, marks_by_job, pending_jobs, queue_positions
from plugin.queue_hook.user_hints import parse_user_hints
from plugin.scheduler.job import HOLDING, Job, JobState
from plugin.scheduler.node import Node, NodeUse, SchedulerState
from plugin.scheduler.port import SchedulerTraits, SchedulerView
from power.lifecycle.node_record import Instant, NodeRecord, NodeState, make_state_row
from power.live.pool_state import is_waiting
from predictors.feeds.port import Window, clip_series
from predictors.price_curve import PriceCurve
from services.agent.agent import SiteAgent
from services.agent.loop import LOG
from services.agent.queue_loop import queue_rules
from services.agent.status_snapshot import (
    NO_SCHEDULER,
    ForecastError,
    JobStatus,
    NodeCounts,
    NodeStatus,
    PriceSlot,
    PriceStatus,
    SavingStatus,
    StatusReply,
    StatusSnapshot,
)

SHOWN = frozenset({JobState.PENDING, JobState.HELD, JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True)
class QueuePlace:
    """Where a job stands among the `of` that compete with it, from 1, and where it would stand without us."""

    now: int
    by_site: int
    of: int

    @property
    def moved(self) -> str:
        """How far it was moved, "" where it was not."""
        up = self.by_site - self.now
        return "" if up == 0 else f"{'up' if up > 0 else 'down'} {abs(up)}"


def job_statuses(facts: QueueFacts, rules: QueueRules, decided: Mapping[str, DecisionRecord]) -> tuple[JobStatus, ...]:
    """Return all jobs that wait or run: first those that wait, each competition in its order."""
    places = find_places(queue_positions(pending_jobs(facts.jobs), marks_by_job(facts.marks, facts.jobs), facts).all)
    shown = [job for job in facts.jobs if job.state in SHOWN]
    last = len(shown) + 1
    shown.sort(key=lambda job: (resource_pool(job), places[job.job_id].now if job.job_id in places else last))
    shown.sort(key=lambda job: job.state is not JobState.PENDING)
    return tuple(
        _add_place(_job_status(job, facts, rules, decided.get(f"job {job.job_id}")), places.get(job.job_id))
        for job in shown
    )


def find_places(standings: Sequence[QueuePosition]) -> dict[str, QueuePlace]:
    """Return the place of each job that waits, among those of its competition."""
    lines: dict[object, list[QueuePosition]] = {}
    for each in standings:
        lines.setdefault(resource_pool(each.job), []).append(each)
    places: dict[str, QueuePlace] = {}
    for line in lines.values():
        now, by_site = (
            {each.job.job_id: at for at, each in enumerate(ordered, 1)}
            for ordered in (
                sorted(line, key=lambda each: (-each.job.priority, each.number)),
                sorted(line, key=lambda each: (-each.site, each.number)),
            )
        )
        places |= {job: QueuePlace(at, by_site[job], len(line)) for job, at in now.items()}
    return places


def _add_place(said: JobStatus, place: QueuePlace | None) -> JobStatus:
    if place is None:
        return said
    return replace(said, place=place.now, of=place.of, moved=place.moved)


def _job_status(job: Job, facts: QueueFacts, rules: QueueRules, decision: DecisionRecord | None) -> JobStatus:
    waits = job.state is JobState.PENDING
    inputs = dict(decision.inputs) if decision and waits else {}
    planned_s = job.start_s if waits and job.start_s and job.start_s > facts.now_s else None
    if planned_s is None and waits and facts.planned is not None:
        planned_s = facts.planned.start_s.get(job.job_id)
    return JobStatus(
        job_id=job.job_id,
        user=job.user,
        partition=",".join(job.partitions),
        state=job.native_state,
        nodes=job.nodes,
        place=None,
        of=0,
        watts_per_node=facts.node_power_w.get(job.job_id),
        why=_explain_wait(job, decision if waits else None),
        would_start_unix_s=planned_s,
        latest_start_unix_s=_number(inputs.get("latest_start_s")),
        expected_saving=_number(inputs.get("saved")),
        currency=facts.prices.currency if facts.prices else "",
        opted_out=parse_user_hints(job.comment, rules.zone).now,
    )


def _explain_wait(job: Job, decision: DecisionRecord | None) -> str:
    scheduler = f"the scheduler says {job.reason}" if job.reason and job.reason != "None" else ""
    ours = f"{decision.decided}, {decision.reason}" if decision else ""
    return "; ".join(each for each in (ours, scheduler) if each)


def _number(value: float | str | None) -> float | None:
    return value if isinstance(value, float | int) else None


def make_status(agent: SiteAgent, *, with_jobs: bool = True) -> StatusReply | None:
    """Return what is known since the last round of the queue; before the first what is wrong, None if nothing is."""
    facts, traits, troubles = agent.facts, agent.observer.traits, agent.problem_log.problems
    if facts is None and not troubles:
        return None
    now_s = agent.now_unix_s
    at_s = now_s if facts is None else facts.now_s
    return StatusReply(
        at_unix_s=at_s,
        mode=str(agent.modes.usual),
        cluster=traits.cluster if traits else "",
        scheduler=f"{traits.name} {traits.version}" if traits else NO_SCHEDULER,
        cycle_s=agent.parts.settings.agent.cycle_s,
        price=price_status(agent.prices.curve, int(at_s)),
        nodes=_node_counts(agent),
        saved_today=_saving_status(agent.savings.today),
        jobs=job_statuses(facts, queue_rules(agent.parts), agent.queue.changed.latest) if facts and with_jobs else (),
        troubles=troubles,
        now_unix_s=now_s,
        clock_factor=agent.parts.clock.factor,
        first_round_until_unix_s=agent.first_round_until_unix_s,
        has_looked=facts is not None,
    )


def price_status(curve: PriceCurve | None, now_s: int) -> PriceStatus:
    """Return the present price."""
    at = -1 if curve is None else curve.at(now_s)
    if curve is None or at < 0:
        return PriceStatus(None, "", "no price is known")
    peak = curve.peak_at(now_s)
    on_peak = None if peak is Peak.UNKNOWN else peak is Peak.ON_PEAK
    price = float(curve.series.value[at])
    return PriceStatus(price, curve.series.unit, curve.basis[at], on_peak, float(curve.peak_until_s(now_s)))


def _saving_status(saving: SavingRecord | None) -> SavingStatus:
    if saving is None:
        return SavingStatus()
    cost = None if saving.cost is None or saving.baseline_cost is None else saving.baseline_cost - saving.cost
    return SavingStatus(saving.baseline_energy_j - saving.energy_j, cost, saving.currency, saving.basis)


def _node_counts(agent: SiteAgent) -> NodeCounts:
    states = Counter(str(life.observed.state) for life in agent.power.lives.nodes.values())
    return NodeCounts(tuple(states.most_common()), agent.meters.watts)


DEPTH_OF = {NodeState.STANDBY: STANDBY, NodeState.OFF: OFF}


def make_snapshot(agent: SiteAgent, jobs_seen_unix_s: float | None) -> StatusSnapshot | None:
    """Return the picture, None before there is anything; without the jobs if they are still those of that instant."""
    seen = agent.facts is not None and agent.facts.now_s == jobs_seen_unix_s
    said = make_status(agent, with_jobs=not seen)
    if said is None:
        return None
    curve, zone, now = agent.prices.curve, agent.parts.zone, agent.power.now
    day_unix_s, month_unix_s = find_day_and_month(now.unix_s, zone)
    counts = Counter(str(job.state) for job in agent.facts.jobs) if agent.facts else Counter[str]()
    watts = agent.meters.node_watts
    return StatusSnapshot(
        published=said,
        zone=str(zone),
        day_unix_s=day_unix_s,
        month_unix_s=month_unix_s,
        job_counts=tuple(sorted(counts.items())),
        slots=price_slots(curve) if curve else (),
        prices_until_unix_s=curve.series.end_s if curve else None,
        nodes=tuple(
            node_status(life, now, watts, agent.parts.node_class(node))
            for node, life in agent.power.lives.nodes.items()
        ),
        errors=(*_price_error(curve), *agent.accounts.errors),
        jobs_left_out=seen,
    )


def node_status(life: NodeRecord, now: Instant, watts: Mapping[str, float], node_class: NodeClass | None) -> NodeStatus:
    """Return what is shown of a node."""
    recorded, seen = make_state_row(life, now), life.observed
    measured_w = watts.get(life.node)
    return NodeStatus(
        node=life.node,
        state=recorded.observed,
        word="" if life.scheduler_state is None else str(life.scheduler_state),
        desired=recorded.desired,
        watts=modelled_w(life, node_class) if measured_w is None else measured_w,
        measured=measured_w is not None,
        idle_watts=None if node_class is None else node_class.idle_w,
        since_unix_s=seen.since_unix_s,
        by=seen.by,
        why="; ".join(filter(None, (seen.problem if seen.state is NodeState.UNKNOWN else "", recorded.why))),
        held=life.hold is not None and life.hold.lasts(now.unix_s),
    )


def modelled_w(life: NodeRecord, node_class: NodeClass | None) -> float | None:
    """Return what such a node draws in its state; None where that hangs on its job, and where nobody knows."""
    if node_class is None or not node_class.depths:
        return None
    state = life.observed.state
    if state is NodeState.ON:
        return None if life.scheduler_state in (None, SchedulerState.BUSY) else node_class.idle_w
    depth = node_class.find_depth(DEPTH_OF.get(state, node_class.depths[-1].depth))
    return None if depth is None else _depth_w(state, depth)


def _depth_w(state: NodeState, depth: SleepDepth) -> float | None:
    draws = {NodeState.GOING_DOWN: depth.enter.power_w, NodeState.BOOTING: depth.leave.power_w}
    asleep_w = depth.power_w if state in DEPTH_OF else None
    return draws.get(state, asleep_w)


def price_slots(curve: PriceCurve) -> tuple[PriceSlot, ...]:
    """Return the curve interval by interval."""
    low, high = curve.range_80
    columns = (curve.series.start_s, curve.series.value, low, high, curve.peak)
    rows = zip(*(column.tolist() for column in columns), curve.basis, strict=True)
    return tuple(
        PriceSlot(from_s, _finite(price), _finite(below), _finite(above), _is_on_peak(peak), basis)
        for from_s, price, below, above, peak, basis in rows
    )


def find_day_and_month(unix_s: float, zone: tzinfo) -> tuple[float, float]:
    """Return when the local day and the local month began [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return today.timestamp(), today.replace(day=1).timestamp()


def _price_error(curve: PriceCurve | None) -> tuple[ForecastError, ...]:
    if curve is None or not math.isfinite(curve.mae):
        return ()
    return (ForecastError("price", curve.series.unit, curve.mae, curve.outcomes),)


def _is_on_peak(peak: int) -> bool | None:
    return None if peak == Peak.UNKNOWN else peak == Peak.ON_PEAK


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


PATIENCE_S = 2.0
"""Who asks does not wait longer for a plan: the first one loads the engine. It is told the one before, if any."""


class SiteReporter:
    """Gives what there is to tell; waits are planned once for each look."""

    def __init__(self, agent: SiteAgent) -> None:
        self._agent = agent
        self._planned_s, self._waits = -1, WaitTable()
        self._planning: asyncio.Task[None] | None = None

    async def said(self) -> SiteReport | None:
        """Return what is known since the last round of the queue, None before the first."""
        agent = self._agent
        view, traits = agent.observer.latest, agent.observer.traits
        if view is None or traits is None:
            return None
        await self._plan(view, traits, agent.facts.expected_run_s if agent.facts else {})
        curve = agent.prices.curve
        return SiteReport(
            at_unix_s=view.at_s,
            cluster=traits.cluster,
            scheduler=f"{traits.name} {traits.version}",
            cores=sum(node.cpus for node in view.nodes),
            idle_cores=sum(count_idle_cores(node, shared=traits.shared_nodes) for node in view.nodes),
            queued=sum(is_waiting(job, view.at_s) for job in view.jobs),
            running=sum(job.state in HOLDING for job in view.jobs),
            waits=self._waits,
            price=_ahead(curve.series if curve else None, view.at_s),
            carbon=_ahead(agent.prices.carbon, view.at_s),
        )

    async def _plan(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        if self._planning is None and self._planned_s != view.at_s:
            self._planning = asyncio.create_task(self._planned(view, traits, dict(run_s)))
        if self._planning is not None:
            await asyncio.wait({self._planning}, timeout=PATIENCE_S)

    async def _planned(self, view: SchedulerView, traits: SchedulerTraits, run_s: Mapping[str, int]) -> None:
        # It loads the engine, which an agent that no broker asks does without.
        from power.live.expected_waits import simulate_waits

        try:
            self._waits = await asyncio.to_thread(simulate_waits, view, run_s, shared=traits.shared_nodes)
            self._planned_s = view.at_s
        except OffpeakError as problem:
            self._waits = WaitTable()
            LOG.warning("waits cannot be planned: %s", problem)
        finally:
            self._planning = None


def count_idle_cores(node: Node, *, shared: bool) -> int:
    """Return how many cores of the node a job could be given now; one that sleeps is woken for it."""
    kept = node.failed or node.reserved or (node.closed and not node.closed_by_us)
    if kept or node.use is NodeUse.UNKNOWN:
        return 0
    return max(node.cpus - node.cpus_used, 0) if shared or node.use is NodeUse.FREE else 0


def _ahead(series: Series | None, now_s: int) -> Curve | None:
    """Return what is known or forecast from now on, None where nothing is."""
    if series is None or series.end_s <= now_s:
        return None
    ahead = clip_series(series, Window(now_s, series.end_s))
    return make_curve(merge(ahead)) if ahead is not None and ahead.known.any() else None

"""The reports of the agent, made on request: status of a cycle, snapshot for page and metrics, report to brokers.

Prices, savings, meters and accounts give their parts of the status; this module adds those of jobs and nodes. The
status of a job has its place in the queue, why it waits, its likely start, and the expected saving. The report to
brokers is made in a thread, once for each reading of the scheduler.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, tzinfo

from offpeak.display import duration_text
from offpeak.door.effect import Mode
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.flexibility import Flexibility
from offpeak.model.node_class import DepthPower, NodeClass
from offpeak.model.node_states import DEPTH_OF_STATE
from offpeak.model.orders import NodeState
from offpeak.model.step_series import Series, merge
from offpeak.plugin.federation.site_report import Curve, SiteReport, make_curve
from offpeak.plugin.queue_hook.checkpoints import CHECKPOINT_STEPS
from offpeak.plugin.queue_hook.facts import OFF, CompetitionGroup, QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import QueuePosition, expected_saving, marks_by_job, queue_positions
from offpeak.plugin.queue_hook.start_times import NO_LIMIT
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState, array_of
from offpeak.plugin.scheduler.node import Node, NodeUse, SchedulerState
from offpeak.plugin.scheduler.node_types import UNKNOWN_PLACE, NodePlace, find_node_places
from offpeak.power.lifecycle.node_record import Instant, NodeRecord, make_state_row
from offpeak.power.live.decide import PoolOffer
from offpeak.predictors.feeds.port import Window, clip_series
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.observer import find_undecided_jobs, without_jobs
from offpeak.services.agent.queue_loop import queue_rules
from offpeak.services.agent.site_context import PartitionModes
from offpeak.services.agent.status import NO_SCHEDULER, JobStatus, NodeCounts, NodeStatus, StatusReply, StatusSnapshot
from offpeak.services.agent.wait_forecast import ASKED_EVERY_S, partition_terms
from offpeak.services.agent.wait_reasons import NO_WAIT_FACTS, WITHOUT_NODES, WaitExplainer, WaitFacts, WaitReason
from offpeak.text import printable

LONGEST_WHY, LONGEST_PART = 2000, 400
"""Letters of a text of reasons, and of each of them: what one user writes must not push the others out."""
SHOWN = frozenset({JobState.PENDING, JobState.HELD, JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED})


def job_statuses(
    facts: QueueFacts,
    rules: QueueRules,
    decided: Mapping[str, DecisionRecord],
    known: WaitFacts = NO_WAIT_FACTS,
    *,
    detailed: Container[str] = (),
) -> tuple[JobStatus, ...]:
    """Return all jobs that wait or run: first those that wait, each group of jobs that compete in its order.

    What a delay would save is computed for the `detailed` jobs only.
    """
    positions = queue_positions(facts.pending, marks_by_job(facts.marks, facts.jobs), facts).all
    pools: dict[object, list[QueuePosition]] = {}
    for position in positions:
        pools.setdefault(facts.competition.group(position.job), []).append(position)
    # Of each job its place among those that compete with it, how many these are, and how far it was moved up.
    places: dict[str, tuple[int, int, int]] = {}
    for pool in pools.values():
        now, by_site = (
            {position.job.job_id: at for at, position in enumerate(ordered, 1)}
            for ordered in (
                sorted(pool, key=lambda position: (-position.job.priority, position.number)),
                sorted(pool, key=lambda position: (-position.site_priority, position.number)),
            )
        )
        places |= {job: (at, len(pool), by_site[job] - at) for job, at in now.items()}
    shown = [job for job in facts.jobs if job.state in SHOWN]
    last = len(shown) + 1, 0, 0
    shown.sort(key=lambda job: (facts.competition.group(job), places.get(job.job_id, last)[0]))
    shown.sort(key=lambda job: job.state is not JobState.PENDING)
    explainer = WaitExplainer(facts, rules, known)
    found = []
    ahead = Counter[CompetitionGroup]()
    for job in shown:
        decision = decided.get(f"job {job.job_id}")
        waits = job.state in WITHOUT_NODES
        group = facts.competition.group(job)
        reason = explainer.explain_wait(job, decision, ahead[group]) if waits else None
        ahead[group] += job.is_waiting(facts.now_s)
        status = _job_status(job, facts, rules, decision, reason)
        if reason and job.job_id in detailed:
            saves = explainer.possible_saving(job, decision, rules.hints(job), reason.start_s)
            status = replace(status, saves=saves)
        if job.job_id in places:
            place, of, up = places[job.job_id]
            moved = f"{'up' if up > 0 else 'down'} {abs(up)}" if up else ""
            status = replace(status, place=place, of=of, moved=moved)
        found.append(status)
    return tuple(found)


def _job_status(
    job: Job, facts: QueueFacts, rules: QueueRules, decision: DecisionRecord | None, reason: WaitReason | None
) -> JobStatus:
    hints = rules.hints(job)
    start_s = reason.start_s if reason else job.start_s
    run_s = facts.expected_run_s.get(job.job_id, job.limit_s)
    inputs = dict(decision.inputs) if decision and reason else {}
    latest_start_s = inputs.get("latest_start_s")
    status = JobStatus(
        job_id=job.job_id,
        user=job.user,
        partition=",".join(job.partitions),
        state=job.native_state,
        nodes=job.nodes,
        place=None,
        of=0,
        watts_per_node=facts.full_node_w.get(job.job_id),
        why=_why_text(job, hints, rules, decision, reason),
        latest_start_unix_s=latest_start_s if isinstance(latest_start_s, float | int) else None,
        expected_saving=expected_saving(inputs, job.tasks),
        currency=facts.prices.currency if facts.prices else "",
        opted_out=hints.now,
        tier="" if hints.is_rigid else hints.text(job.submit_s),
        ends_unix_s=start_s + run_s if start_s and run_s else None,
    )
    if reason is None:
        return status
    return replace(
        status,
        cause=str(reason.cause),
        would_start_unix_s=reason.start_s,
        starts_from_unix_s=reason.from_s,
        starts_by_unix_s=reason.by_s,
        start_condition=printable(reason.start_condition, enough=LONGEST_PART),
        remedy=printable(reason.remedy, enough=LONGEST_PART),
    )


def _why_text(
    job: Job, hints: Flexibility, rules: QueueRules, decision: DecisionRecord | None, reason: WaitReason | None
) -> str:
    """Return the cause of a wait in a sentence, or what offpeak does with a job that runs; then what is to be noted."""
    parts = [reason.sentence] if reason else []
    if job.state is JobState.RUNNING and decision is not None and decision.decided in CHECKPOINT_STEPS:
        parts.append(f"{decision.decided}: {decision.reason}")
    may_be_delayed = rules.policy != OFF and rules.longest_delay_s > 0 and rules.hints(job).allows_delay
    has_started = job.state in (JobState.STARTS, JobState.RUNNING) and job.start_s is not None
    is_early = has_started and (job.start_s or 0) - job.submit_s <= AT_SUBMISSION_S
    parts += [STARTED_EARLY if may_be_delayed and is_early else "", *hints.errors]
    if reason and hints.deadline_s is not None and job.limit_s is None and not hints.now:
        parts.append(NO_LIMIT)
    if job.reason and job.reason != "None" and not (reason and job.reason in reason.sentence):
        parts.append(f"the scheduler says: {job.reason}")
    return printable("; ".join(printable(part, enough=LONGEST_PART) for part in parts if part), enough=LONGEST_WHY)


STARTED_EARLY = "it may wait, and the scheduler started it at its submission, before offpeak could delay it"
AT_SUBMISSION_S = 5


async def explain_job(agent: SiteAgent, job_id: str) -> StatusReply | None:
    """Return the status with all that is known of one job; it waits a moment for a simulation of the queue."""
    view, traits, facts = agent.observer.latest, agent.observer.traits, agent.queue_loop.facts
    if view is not None and traits is not None and agent.waits.is_due(view.at_s, ASKED_EVERY_S):
        is_first = agent.waits.at_s < 0
        agent.waits.begin(view, traits, facts.expected_run_s if facts else {})
        await agent.waits.finish(patience_s=FIRST_PATIENCE_S if is_first else PATIENCE_S)
    return make_status(agent, detailed=job_id)


def make_status(agent: SiteAgent, *, with_jobs: bool = True, detailed: str = "") -> StatusReply | None:
    """Return the status of the last round of the queue; before the first the problems, None if there are none.

    The `detailed` job is one by its id, with or without the name of its server, or by a task of its array.
    """
    facts, traits, problems = agent.queue_loop.facts, agent.observer.traits, agent.problem_log.problems
    if facts is None and not problems:
        return None
    now_s = agent.now_unix_s
    at_s = now_s if facts is None else facts.now_s
    rules = queue_rules(agent.site_in_force.settings, agent.site.zone)
    jobs: tuple[JobStatus, ...] = ()
    if facts and with_jobs:
        decided = agent.queue.changed.latest | agent.checkpoints.changed.latest
        named = {detailed, array_of(detailed)} - {""}
        those = {job.job_id for job in facts.jobs if named & {job.job_id, job.job_id.partition(".")[0]}}
        jobs = job_statuses(facts, rules, decided, _wait_facts(agent, int(at_s)), detailed=those)
    return StatusReply(
        at_unix_s=at_s,
        mode=str(agent.modes.usual),
        cluster=traits.cluster if traits else "",
        scheduler=f"{traits.name} {traits.version}" if traits else NO_SCHEDULER,
        cycle_s=int(agent.queue_loop.period_s),
        price=agent.prices.status(int(at_s)),
        nodes=_node_counts(agent),
        saved_today=agent.savings.today,
        shadow_today=agent.savings.shadow_today,
        jobs=jobs,
        problems=problems,
        now_unix_s=now_s,
        clock_factor=agent.site.clock.factor,
        first_round_until_unix_s=agent.first_round_until_unix_s,
        has_looked=facts is not None,
        own_policy=agent.site.settings.agent.own_policy,
        own_policy_is_shadowed=not agent.modes.may_rank,
        last_round_unix_s=agent.last_round_unix_s,
        capacity=(
            *(f"{offer.pool}: {offer.text}: {offer.why}" for offer in agent.power.offers),
            *((agent.power.budget.text,) if agent.power.budget else ()),
            *agent.trial.notes,
            *agent.power.cycle_notes,
        ),
        forecasts=(*agent.prices.forecasts, *agent.accounts.forecasts),
        refused_readings=agent.meters.refused_readings,
        scheduler_use=agent.observer.pace.use(agent.site.settings.agent.cycle_s),
        demand=agent.savings.demand,
        lease=agent.ledger.lease.state(),
        remote_write=agent.remote.counts,
    )


def _wait_facts(agent: SiteAgent, at_s: int) -> WaitFacts:
    view, traits, history = agent.observer.latest, agent.observer.traits, agent.wait_history
    starts_s = agent.waits.known_starts(at_s)
    return WaitFacts(
        nodes=view.nodes if view else (),
        starts_s=starts_s,
        is_simulated=agent.waits.is_known(at_s),
        spread=lambda wait_s: (history.quantile_s(wait_s, 10), history.quantile_s(wait_s, 90)),
        offers=offers_in_force(agent.power.offers, agent.modes),
        boot_ends_s=agent.power.boot_ends_s,
        acts=lambda job: agent.modes.of(job.partitions) is Mode.ACTIVE and agent.modes.may_rank,
        scheduler=traits.name if traits else "",
    )


def offers_in_force(offers: Iterable[PoolOffer], modes: PartitionModes) -> tuple[PoolOffer, ...]:
    """Return the offers for which jobs may wait: where the mode is not active, no node is closed."""
    return tuple(offer for offer in offers if modes.of(offer.partitions) is Mode.ACTIVE)


def _node_counts(agent: SiteAgent) -> NodeCounts:
    states = Counter(str(record.observed.state) for record in agent.power.records.nodes.values())
    return NodeCounts(tuple(states.most_common()), agent.meters.watts)


def make_snapshot(agent: SiteAgent, jobs_seen_unix_s: float | None) -> StatusSnapshot | None:
    """Return the snapshot, None before there is a status; without the jobs if they are still those of that instant."""
    facts = agent.queue_loop.facts
    seen = facts is not None and facts.now_s == jobs_seen_unix_s
    status = make_status(agent, with_jobs=not seen)
    if status is None:
        return None
    curve, zone, now = agent.prices.curve, agent.site.zone, agent.power.now
    day_unix_s, month_unix_s = find_day_and_month(now.unix_s, zone)
    counts = Counter(str(job.state) for job in facts.jobs) if facts else Counter[str]()
    watts, view = agent.meters.node_watts, agent.observer.latest
    places = find_node_places(view.nodes) if view else {}
    plan = agent.planner.latest if facts and facts.planned else None
    racks = defaultdict(str, {name: each.rack or each.enclosure or "" for name, each in agent.site.by_name.items()})
    return StatusSnapshot(
        published=status,
        zone=str(zone),
        day_unix_s=day_unix_s,
        month_unix_s=month_unix_s,
        job_counts=tuple(sorted(counts.items())),
        slots=agent.prices.slots,
        prices_until_unix_s=curve.series.end_s if curve else None,
        nodes=tuple(
            node_status(
                record,
                now,
                watts,
                agent.site.node_class(node),
                places.get(node, UNKNOWN_PLACE)._replace(left=agent.power.left.get(node, "")),
                racks[node],
                overdue_s=agent.power.overdue.get(node, 0.0),
            )
            for node, record in agent.power.records.nodes.items()
        ),
        jobs_left_out=seen,
        planned_w=() if plan is None else plan.power_profile.steps_w,
    )


def node_status(
    record: NodeRecord,
    now: Instant,
    watts: Mapping[str, float],
    node_class: NodeClass | None,
    place: NodePlace = UNKNOWN_PLACE,
    rack: str = "",
    *,
    overdue_s: float = 0.0,
) -> NodeStatus:
    """Return the status of a node."""
    row, observed = make_state_row(record, now), record.observed
    measured_w = watts.get(record.node)
    overdue = f"ordered to sleep {duration_text(int(overdue_s))} ago, and still on" if overdue_s else ""
    return NodeStatus(
        node=record.node,
        state=row.observed,
        word="" if record.scheduler_state is None else str(record.scheduler_state),
        desired=row.desired,
        watts=modelled_w(record, node_class) if measured_w is None else measured_w,
        measured=measured_w is not None,
        idle_watts=None if node_class is None else node_class.idle_w,
        since_unix_s=observed.since_unix_s,
        by=observed.cause,
        why=printable("; ".join(filter(None, (place.left, overdue, observed.problem, row.why))), enough=LONGEST_WHY),
        held=record.hold is not None and record.hold.lasts(now.unix_s),
        **place._asdict(),
        rack=rack,
        overdue_s=overdue_s,
    )


def modelled_w(record: NodeRecord, node_class: NodeClass | None) -> float | None:
    """Return the power of such a node in its state; None if it depends on a job, or if the class is not known."""
    if node_class is None or not node_class.depths:
        return None
    state = record.observed.state
    if state is NodeState.ON:
        return None if record.scheduler_state in (None, SchedulerState.BUSY) else node_class.idle_w
    depth = node_class.find_depth(DEPTH_OF_STATE.get(state, node_class.depths[-1].depth))
    return None if depth is None else _depth_w(state, depth)


def _depth_w(state: NodeState, depth: DepthPower) -> float | None:
    draws = {NodeState.GOING_DOWN: depth.enter.power_w, NodeState.BOOTING: depth.leave.power_w}
    asleep_w = depth.power_w if state in DEPTH_OF_STATE else None
    return draws.get(state, asleep_w)


def find_day_and_month(unix_s: float, zone: tzinfo) -> tuple[float, float]:
    """Return when the local day and the local month began [Unix s]."""
    today = datetime.fromtimestamp(unix_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return today.timestamp(), today.replace(day=1).timestamp()


PATIENCE_S = 2.0
"""A broker waits no longer for a simulation: it gets the waits of the one before."""
FIRST_PATIENCE_S = 4.0
"""It waits longer for the first simulation, which loads the engine, but less than its time limit for a site."""


async def make_site_report(agent: SiteAgent) -> SiteReport | None:
    """Return the report to brokers of the last round of the queue, None before the first."""
    view, traits, facts = agent.observer.latest, agent.observer.traits, agent.queue_loop.facts
    if view is None or traits is None:
        return None
    # A job that is put off, or may still be, holds up no other.
    undecided = find_undecided_jobs(view, agent.queue_loop.decided, agent.site.flexibility)
    counted = without_jobs(view, undecided | agent.queue.deferred)
    agent.waits.begin(counted, traits, facts.expected_run_s if facts else {})
    await agent.waits.finish(patience_s=FIRST_PATIENCE_S if agent.waits.at_s < 0 else PATIENCE_S)
    curve = agent.prices.curve
    return SiteReport(
        at_unix_s=view.at_s,
        cluster=traits.cluster,
        scheduler=f"{traits.name} {traits.version}",
        cores=sum(node.cpus for node in view.nodes),
        idle_cores=sum(count_idle_cores(node, shared=traits.shared_nodes) for node in view.nodes),
        queued=sum(job.is_waiting(view.at_s) for job in counted.jobs),
        running=sum(job.state in HOLDING for job in view.jobs),
        waits=agent.waits.latest.total,
        pools=agent.waits.latest.pools,
        partitions=partition_terms(traits),
        price=_ahead(curve.series if curve else None, view.at_s),
        carbon=_ahead(agent.prices.carbon, view.at_s),
    )


def count_idle_cores(node: Node, *, shared: bool) -> int:
    """Return the number of cores of the node that are free for a job; a sleeping node is woken for it."""
    kept = node.failed or node.reserved or (node.closed and not node.closed_by_us)
    if kept or node.use is NodeUse.UNKNOWN:
        return 0
    return max(node.cpus - node.cpus_used, 0) if shared or node.use is NodeUse.FREE else 0


def _ahead(series: Series | None, now_s: int) -> Curve | None:
    """Return the part of the series from now on, None if there is none."""
    if series is None or series.end_s <= now_s:
        return None
    ahead = clip_series(series, Window(now_s, series.end_s))
    return make_curve(merge(ahead)) if ahead is not None and ahead.known.any() else None

"""The answer to a grid event: while a cap on the site's power holds, the agent climbs a ladder until the draw is below.

The queue starts no job that would exceed the cap, and the power loop puts idle nodes to sleep: the rungs of any cap.
What running jobs draw beyond it comes from jobs that allow it: first caps on nodes all of whose jobs may be capped,
then checkpoints of jobs that may be requeued, unless idle nodes are about to sleep. After the event the caps end by
`wake_ramp`, and the requeued jobs begin by it. Each rung is a decision in the ledger under the subject `EVENT`;
`deliveries` compares the event with what meters saw.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from offpeak.display import power_text, watts_text
from offpeak.door.effect import AGENT, DONE, Outcome
from offpeak.errors import BadInput
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.records import decisions_of
from offpeak.ledger.rows import DecisionRecord, Inputs
from offpeak.machines.node_sets import fold
from offpeak.model.constants import MINUTE_S
from offpeak.model.facility import PowerCap
from offpeak.model.flexibility import FlexibilityRules
from offpeak.model.node_class import NodeClass
from offpeak.plugin.queue_hook.checkpoints import GOES_ON, may_stop
from offpeak.plugin.queue_hook.facts import StartConstraint
from offpeak.plugin.scheduler.job import HOLDING, Job, JobState
from offpeak.power.door.cap_orders import CapOrderer
from offpeak.power.live.power_cap import LATE_S, SETTLED_S, PowerBudget
from offpeak.predictors.openadr import MeasuredInterval
from offpeak.services.agent.cap_loop import CapController, outcome_text
from offpeak.services.agent.checkpoints import CheckpointController
from offpeak.services.agent.demand_response import OrderedCaps, measure_intervals
from offpeak.services.agent.loop import Loop, ProblemLog
from offpeak.services.agent.observer import Observer
from offpeak.services.agent.site_context import SiteContext
from offpeak.text import counted

EVENT = "grid event"
"""The subject of the decisions of the ladder."""
BEGIN, CAPS, CHECKPOINTS, SPARED, END = "begin", "caps", "checkpoints", "spared", "end"
PERIOD_S = 5.0
SETTLE_S = 10.0
"""The time in which a new decision about nodes takes the last rung into account."""
GRACE_SHARE = 0.25
"""For this share of the event, and for `LATE_S` at most, no job is stopped for what idle nodes will bring."""
MARGIN = 1.02
"""Rungs bring so much more than is missing: devices and meters are not exact."""
CAP_EXPIRY_S = 120.0
"""A cap ends by itself so long after the ramp of its event, should the agent not end it."""
AGAIN_S = 300.0
"""A node that could not be capped is tried again after this time: its device is not read each time."""


@dataclass(frozen=True)
class RunningJob:
    """A running job that may be requeued: what its nodes draw beyond what they draw asleep, and its checkpoint."""

    job_id: str
    saved_w: float
    checkpoint_s: int
    is_signalled: bool = False


def choose_requeues(jobs: Iterable[RunningJob], missing_w: float, left_s: float) -> tuple[RunningJob, ...]:
    """Return the jobs whose nodes bring the missing power, as few as possible, those first that were asked before.

    A job is left alone whose checkpoint takes longer than the event, or that brings nothing, unless it was asked.
    """
    useful = [job for job in jobs if job.is_signalled or (job.saved_w > 0 and job.checkpoint_s < left_s)]
    chosen = list[RunningJob]()
    for job in sorted(useful, key=lambda job: (not job.is_signalled, -job.saved_w, job.job_id)):
        if missing_w > 0 or job.is_signalled:
            chosen.append(job)
            missing_w -= job.saved_w
    return tuple(chosen)


def running_jobs(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that have nodes, without those on nodes that are not understood: they are left alone."""
    return [job for job in jobs if job.state in HOLDING and job.known_hosts]


def ramp_s(before_w: float, wake_ramp_w: float | None) -> float:
    """Return how long after the event the power `before_w` may have come back; the ramp is per minute."""
    return before_w / wake_ramp_w * MINUTE_S if wake_ramp_w else 0.0


@dataclass(frozen=True)
class EventSection:
    """What jobs allow, the ramp of the way back [W a minute], the classes of nodes, and the measured draws [W]."""

    flexibility: FlexibilityRules
    wake_ramp_w: float | None
    node_class: Callable[[str], NodeClass | None]
    measured_w: Callable[[], Mapping[str, float]]

    @classmethod
    def of(cls, site: SiteContext, measured_w: Callable[[], Mapping[str, float]]) -> "EventSection":
        """Return the section of a site."""
        return cls(site.flexibility, site.settings.agent.wake_ramp_w, site.node_class, measured_w)

    def draw_w(self, node: str) -> float:
        """Return what a busy node draws, at full load if it is not measured."""
        node_class = self.node_class(node)
        return self.measured_w().get(node, node_class.running_w(1.0) if node_class else 0.0)

    def saved_w(self, node: str) -> float:
        """Return how much less the node draws asleep."""
        node_class = self.node_class(node)
        return self.draw_w(node) - (node_class.asleep_w if node_class else 0.0)


@dataclass(kw_only=True)
class GridEventLoop(Loop):
    """Climbs the ladder, and comes back. `capped_w` is what the nodes that it has capped draw at most."""

    section: Callable[[], EventSection]
    caps: OrderedCaps
    budget: Callable[[], PowerBudget | None]
    node_caps: CapController
    checkpoints: CheckpointController
    observer: Observer
    ledger: Ledger
    problem_log: ProblemLog
    clock: Callable[[], float]
    decide_soon: Callable[[], None]

    name = "grid event"
    period_s = PERIOD_S

    def __post_init__(self) -> None:
        """Begin without an event."""
        self._event: PowerCap | None = None
        self._acted_s = 0.0
        self._saved_w: dict[str, float] = {}
        self._back_s: dict[str, float] = {}
        self._left: dict[str, tuple[float, str]] = {}
        self._go_on: set[str] = set()
        self._is_new = False
        self._capped_w: dict[str, float] = {}
        self.capped_w: Mapping[str, float] = {}

    async def round(self) -> None:
        """Climb a rung if the draw is above the cap, or come back a step if no event lasts."""
        now_s, records = self.clock(), self.node_caps.records.by_node
        in_force = {node for node, record in records.items() if record.by == AGENT}
        self._saved_w = {node: saved_w for node, saved_w in self._saved_w.items() if node in in_force}
        self._capped_w = {node: cap_w for node, cap_w in self._capped_w.items() if node in in_force}
        measured_w = self.section().measured_w()
        settled = {node for node in in_force if now_s >= records[node].since_unix_s + SETTLED_S}
        # The cap of a device lets the rest of the node draw more.
        more_w = {node: each_w for node, each_w in measured_w.items() if node in settled}
        self.capped_w = {node: max(cap_w, more_w.get(node, 0.0)) for node, cap_w in self._capped_w.items()}
        event = min(self.caps.in_force(), key=lambda cap: cap.cap_w, default=None)
        if event is None:
            await self._come_back(now_s)
            return
        if event != self._event:
            self._event, self._acted_s, self._is_new = event, now_s, True
            self._back_s, self._left = {}, {}
            self._keep_caps(event.until_s)
            inputs = (("cap_w", float(event.cap_w)), ("from_s", float(event.from_s)), ("until_s", float(event.until_s)))
            self._record(now_s, BEGIN, event.reason, (*inputs, ("draw_w", sum(measured_w.values()))))
        for job, why in self.checkpoints.go_on.items():
            if job in self.checkpoints.events and job not in self._go_on:
                self._record(now_s, GOES_ON, f"job {job}: {why}")
        self._go_on |= self.checkpoints.go_on.keys()
        budget = self.budget()
        if budget is not None and now_s >= self._acted_s + SETTLE_S:
            self._acted_s, missing_w = now_s, budget.draw_w - event.cap_w
            if missing_w > 0:
                self._back_s = {}
                waits_s = min(GRACE_SHARE * (event.until_s - event.from_s), LATE_S)
                held_back_w = budget.held_back_w if now_s < event.from_s + waits_s else 0.0
                await self._climb(event, MARGIN * missing_w, now_s, held_back_w)
            else:
                self.problem_log.report(EVENT, None)
                self._spare(now_s)
                if self._is_new:
                    # The event before this one may have needed more caps.
                    self._plan_return(now_s, -missing_w / MARGIN)
            self._is_new = False
        await self._end_due(now_s)

    async def _climb(self, event: PowerCap, missing_w: float, now_s: float, held_back_w: float) -> None:
        """Bring down the draw of running jobs by so much, as far as they allow it.

        No job is stopped for `held_back_w`, which idle nodes will bring.
        """
        section, view = self.section(), self.observer.latest
        if view is None:
            return
        running = running_jobs(view.jobs)
        willing = [job for job in running if section.flexibility.of(job).may_be_capped]
        hosts = {host for job in willing for host in job.host_names}
        self._left = {node: left for node, left in self._left.items() if node in hosts}
        if free := sorted(node for node in hosts if node not in self._left or self._left[node][0] <= now_s):
            missing_w = await self._cap(event, free, missing_w)
        missing_w -= held_back_w
        # Those that begin again before it come back with less than is missing.
        back_w = sum(self._saved_w.values()) + max(missing_w, 0.0)
        begin_s = event.until_s + int(ramp_s(back_w, section.wake_ramp_w))
        requeues = choose_requeues(self._requeueable(running, begin_s), missing_w, event.until_s - now_s)
        new = [job for job in requeues if job.job_id not in self.checkpoints.events]
        # The queue loop stops these; they begin again one after another, as the ramp allows.
        reason = f"the cap of {watts_text(event.cap_w)} lasts until then: {event.reason}"
        returned_w, events = sum(self._saved_w.values()), dict[str, StartConstraint]()
        for job in requeues:
            again_s = event.until_s + int(ramp_s(returned_w, section.wake_ramp_w))
            events[job.job_id] = StartConstraint(again_s, reason, event.until_s)
            returned_w += job.saved_w
        self.checkpoints.events = events
        if new:
            names = ", ".join(job.job_id for job in new)
            gain = power_text(sum(job.saved_w for job in new))
            self._record(now_s, CHECKPOINTS, f"of {counted(len(new), 'job')} ({names}), to bring {gain}")
        left_w = missing_w - sum(job.saved_w for job in requeues)
        if left_w > 0 and not new:
            first = next((f" ({node}: {why})" for node, (_, why) in self._left.items()), "")
            self.problem_log.report(EVENT, f"no other job allows a cap or a checkpoint{first}; see `offpeak shed`")
        self.decide_soon()

    async def _cap(self, event: PowerCap, nodes: Sequence[str], missing_w: float) -> float:
        """Cap nodes, or lower their caps, keep why others are not capped, and return what is still missing."""
        section = self.section()
        plan = await self.node_caps.plan(nodes, missing_w, self._saved_w)
        saved_w = {**self._saved_w, **{cap.node: cap.saved_w for cap in plan.caps}}
        until_s = event.until_s + ramp_s(sum(saved_w.values()), section.wake_ramp_w)
        orderer = CapOrderer(AGENT, f"{EVENT}: {event.reason}", until_s + CAP_EXPIRY_S)
        outcomes = await self.node_caps.carry_out(plan.caps, orderer)
        problems = dict(plan.left)
        done_w, done = 0.0, set[str]()
        for cap in plan.caps:
            outcome = outcomes[cap.node]
            if not isinstance(outcome, Outcome) or outcome.result != DONE:
                problems[cap.node] = outcome_text(outcome)
                continue
            before_w = self.capped_w.get(cap.node, section.draw_w(cap.node))
            more_w = cap.saved_w - self._saved_w.get(cap.node, 0.0)
            self._saved_w[cap.node], self._capped_w[cap.node] = cap.saved_w, before_w - more_w
            done_w += more_w
            done.add(cap.node)
        self.capped_w = {**self.capped_w, **{node: self._capped_w[node] for node in done}}
        if done:
            reason = f"on {fold(done)}, {power_text(done_w)} less, {power_text(missing_w)} needed"
            self._record(self.clock(), CAPS, reason)
        again_s = self.clock() + AGAIN_S
        self._left |= {node: (again_s, why) for node, why in problems.items()}
        return missing_w - done_w

    def _requeueable(self, running: Sequence[Job], begin_s: int) -> Iterable[RunningJob]:
        """Yield the jobs that may be stopped, to begin again at `begin_s` at the latest, and have their nodes alone."""
        section = self.section()
        sharing: dict[str, int] = {}
        for job in running:
            for host in job.host_names:
                sharing[host] = sharing.get(host, 0) + 1
        for job in running:
            flexibility = section.flexibility.of(job)
            if job.state is not JobState.RUNNING or job.job_id in self._go_on or flexibility.checkpoint is None:
                continue
            signalled = job.job_id in self.checkpoints.signalled
            if not (signalled or may_stop(job, flexibility, begin_s=begin_s, now_s=int(self.clock()))):
                continue
            alone = [host for host in job.host_names if sharing[host] == 1]
            saved_w = sum(map(section.saved_w, alone))
            yield RunningJob(job.job_id, saved_w, flexibility.checkpoint.within_s, signalled)

    def _spare(self, now_s: float) -> None:
        """Take back the choice of jobs that were not asked yet: the draw is below the cap without them."""
        chosen = self.checkpoints.events
        if spared := [job for job in chosen if job not in self.checkpoints.signalled]:
            self.checkpoints.events = {job: chosen[job] for job in chosen if job not in spared}
            self._record(
                now_s, SPARED, f"{counted(len(spared), 'job')} ({', '.join(spared)}): the draw is below the cap"
            )

    async def _come_back(self, now_s: float) -> None:
        """End caps as far as the ramp allows it by now."""
        if self._event is not None:
            self._event, self.checkpoints.events = None, {}
            self._go_on.clear()
            self.node_caps.freed.clear()
            self.problem_log.report(EVENT, None)
            self._record(now_s, END, f"{counted(len(self._saved_w), 'node')} to bring back to full power")
            self._keep_caps(now_s)
            self._plan_return(now_s, math.inf)
        await self._end_due(now_s)

    def _keep_caps(self, until_s: float) -> None:
        """Let the caps last until their way back from an event that ends then."""
        back_s = ramp_s(sum(self._saved_w.values()), self.section().wake_ramp_w)
        self.node_caps.extend(self._saved_w, until_s + back_s + CAP_EXPIRY_S)

    def _plan_return(self, now_s: float, spare_w: float) -> None:
        """Set the times at which caps end, one after another by the ramp, as many as bring back `spare_w` at most."""
        nodes, ramp_w = sorted(self._saved_w), self.section().wake_ramp_w
        back_w = zip(nodes, accumulate(self._saved_w[node] for node in nodes), strict=True)
        self._back_s = {node: now_s + ramp_s(each_w, ramp_w) for node, each_w in back_w if each_w <= spare_w}

    async def _end_due(self, now_s: float) -> None:
        if due := [node for node in self._saved_w if self._back_s.get(node, math.inf) <= now_s]:
            await self.node_caps.lift(due, CapOrderer(AGENT, f"{EVENT}: no longer needed"))

    def _record(self, now_s: float, decided: str, reason: str, inputs: Inputs = ()) -> None:
        self.ledger.write_decisions([DecisionRecord(now_s, EVENT, decided, reason, inputs)])


STEP_S, MOST_STEPS = 15, 480
"""Deliveries are measured by quarter-minutes, those of more than two hours by longer steps: each one costs a query."""
MOST_EVENTS = 500


@dataclass(frozen=True)
class Delivery:
    """An event, the draw before it [W] if it is known, what was decided in it, and the draw of each step."""

    cap: PowerCap
    before_w: float | None
    rungs: tuple[str, ...]
    intervals: tuple[MeasuredInterval, ...]

    @property
    def below_after_s(self) -> int | None:
        """When the first quarter-minute at or below the cap began, after the begin; None without one."""
        first = next((each for each in self.intervals if each.power_w <= self.cap.cap_w), None)
        return None if first is None else first.from_s - self.cap.from_s

    @property
    def held(self) -> float | None:
        """The share of the quarter-minutes at or below the cap, from the first one on; None without one."""
        if (after_s := self.below_after_s) is None:
            return None
        later = [each for each in self.intervals if each.from_s >= self.cap.from_s + after_s]
        return sum(each.power_w <= self.cap.cap_w for each in later) / len(later)

    @property
    def mean_w(self) -> float | None:
        """The mean draw, None if no node was measured."""
        lasts_s = [each.until_s - each.from_s for each in self.intervals]
        energy_j = sum(each.power_w * each_s for each, each_s in zip(self.intervals, lasts_s, strict=True))
        return energy_j / sum(lasts_s) if lasts_s else None


def deliveries(url: str, now_s: float, most: int) -> tuple[Delivery, ...]:
    """Return the latest events, the newest first, as far as they have come. It reads the ledger. Raises BadLedger."""
    with open_ledger(url) as connection:
        rows = decisions_of(connection, EVENT, most=MOST_EVENTS)
    found, rungs, ended_s = list[Delivery](), list[str](), None
    for row in rows:
        if row["decided"] == BEGIN:
            inputs = dict(row["inputs"])
            if found and (found[-1].cap.from_s, found[-1].cap.cap_w) == (int(inputs["from_s"]), int(inputs["cap_w"])):
                # The event got another end, or the agent was restarted in it.
                rungs_before = (*reversed(rungs), *found[-1].rungs)
                found[-1] = replace(found[-1], before_w=inputs["draw_w"] or None, rungs=rungs_before)
            elif len(found) < most:
                found.append(_delivery(url, row, tuple(reversed(rungs)), now_s if ended_s is None else ended_s))
            else:
                break
            rungs, ended_s = [], row["at_unix_s"]
        elif row["decided"] == END:
            rungs, ended_s = [], row["at_unix_s"]
        else:
            rungs.append(f"{row['decided']} {row['reason']}")
    return tuple(found)


def _delivery(url: str, row: Mapping[str, Any], rungs: tuple[str, ...], ended_s: float) -> Delivery:
    inputs = dict(row["inputs"])
    from_s, until_s = int(inputs["from_s"]), int(min(inputs["until_s"], ended_s))
    cap = PowerCap(from_s, max(until_s, from_s), int(inputs["cap_w"]), row["reason"], EVENT)
    step_s = STEP_S * math.ceil((cap.until_s - cap.from_s) / (STEP_S * MOST_STEPS))
    intervals = measure_intervals(url, cap, step_s) if step_s else ()
    return Delivery(cap, inputs["draw_w"] or None, rungs, intervals)


def target_w(share: float | None, cap_w: int | None, machines: Iterable[str], measured_w: Mapping[str, float]) -> int:
    """Return the cap that an operator orders: as such, or by a share of the present draw. Raises BadInput."""
    if cap_w is not None or share is None:
        return cap_w or 0
    blind = [node for node in machines if node not in measured_w]
    if blind:
        what = f"the present draw is not known: {counted(len(blind), 'node')} without a reading ({fold(blind)})"
        raise BadInput(what, hint="order watts, such as `offpeak shed 40kW --for 2h`")
    return int((1 - share) * sum(measured_w.values()))

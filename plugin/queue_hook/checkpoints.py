"""Decides which running jobs are asked for a checkpoint and requeued: the rest of their run is cheaper later.

A job takes one step a cycle. It gets its signal. When it permits its requeue, which says that its checkpoint is
written, it is requeued with a begin time. A job that does not permit that in its declared time goes on. Each step rests
on a mark in the ledger and on what the scheduler shows, so an agent that is restarted in between goes on from there.
Without an agent the job runs on, or waits in the queue.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from offpeak.display import duration_text
from offpeak.ledger.rows import DecisionRecord, Inputs, JobMark
from offpeak.model.constants import HOUR_S, J_PER_MWH
from offpeak.model.flexibility import Checkpoint, Flexibility, Tier
from offpeak.plugin.queue_hook.facts import CAP_AHEAD_S, QueueFacts, QueueRules, StartConstraint
from offpeak.plugin.queue_hook.positions import BEGIN, BY_CAP, EXPECTED_SAVING, NO_MARKS, marks_by_job
from offpeak.plugin.queue_hook.start_times import BeginTimePlanner, StartCost, latest_start_s, saves_enough, shift_mark
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import RequeuePermit

CHECKPOINT, REQUEUED, GOES_ON = "checkpoint", "requeued", "goes on"
"""The kinds of marks: of a job that was asked, `was` is the start of its run, `to` the end of its declared time; of a
job that is requeued, `to` is the begin time that it gets once it waits, `was` the end of the event that stops it."""
CHECKPOINT_STEPS = frozenset({CHECKPOINT, REQUEUED, GOES_ON})
"""The decisions about a running job."""
LEAST_RUN_S = HOUR_S
"""A job is asked after this time at the earliest, so that it makes progress between two requeues. An event asks also a
job that was never requeued, once it has run for as long as its checkpoint takes."""
MOST_REQUEUES = 5
"""A job that was started again so often goes on."""
MOST_AT_ONCE = 10
"""So many jobs write a checkpoint at the same time: they share a file system."""
SETTLE_S = 600
"""Within this time a requeued job has left its nodes, or runs again."""
BACK_OFF_S = 150
"""Slurm lets a requeued job wait for two minutes; a later begin time is ours, or that of an admin."""
NO_PROOF = (
    "not asked for a checkpoint: it may be requeued at any time, so nothing would show that its checkpoint is written; "
    "its script forbids that at first and permits it after the checkpoint"
)


@dataclass(frozen=True)
class CheckpointChoice:
    """Why a running job stops: it starts again at `begin_s` [Unix s] at the earliest.

    `until_s` is the end of the event that stops it, 0 if the price does.
    """

    job: Job
    checkpoint: Checkpoint
    begin_s: int
    why: str
    inputs: Inputs = ()
    until_s: int = 0


@dataclass(frozen=True)
class CheckpointPlan:
    """The signals to send, and the jobs to requeue, each with the mark that must be on the disk before its order.

    `problems` are jobs that wrote no checkpoint in time.
    """

    signals: dict[str, tuple[str, JobMark]] = field(default_factory=dict)
    requeue: dict[str, JobMark] = field(default_factory=dict)
    forget: list[JobMark] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def decide(self, now_s: int, job: Job, decided: str, reason: str, inputs: Inputs = ()) -> None:
        """Add a decision about the job."""
        self.decisions.append(DecisionRecord(now_s, f"job {job.job_id}", decided, reason, inputs))


def choose_checkpoints(
    facts: QueueFacts, rules: QueueRules, events: Mapping[str, StartConstraint] | None = None
) -> dict[str, CheckpointChoice]:
    """Return the running jobs that are better stopped now, by price, or because of `events` that name them.

    Only jobs whose owner or site has declared a checkpoint are stopped, also by an event, which keeps to deadlines.
    """
    planner, found = BeginTimePlanner(facts, rules), {}
    for job in facts.jobs:
        if job.state is not JobState.RUNNING or job.start_s is None or not (job.plain or job.array_id):
            continue
        flexibility = rules.hints(job)
        checkpoint = flexibility.checkpoint
        if checkpoint is None or not flexibility.may_be_requeued:
            continue
        event = (events or {}).get(job.job_id)
        if event is not None:
            if may_stop(job, flexibility, begin_s=event.begin_s, now_s=facts.now_s):
                found[job.job_id] = CheckpointChoice(job, checkpoint, event.begin_s, event.why, until_s=event.until_s)
        elif (choice := _choose_by_price(job, checkpoint, planner)) is not None:
            found[job.job_id] = choice
    return found


def may_stop(job: Job, flexibility: Flexibility, *, begin_s: int, now_s: int) -> bool:
    """Return whether an event may stop a running job that begins again at `begin_s`.

    It has run for as long as its checkpoint takes: one that has just started may not handle the signal yet. The rest of
    its time limit ends before its deadline.
    """
    checkpoint, deadline_s, ran_s = flexibility.checkpoint, flexibility.deadline_s, now_s - (job.start_s or now_s)
    if checkpoint is None or not flexibility.may_be_requeued or ran_s < checkpoint.within_s:
        return False
    if deadline_s is None:
        return True
    return job.limit_s is not None and begin_s + job.limit_s - ran_s + checkpoint.within_s <= deadline_s


def _choose_by_price(job: Job, checkpoint: Checkpoint, planner: BeginTimePlanner) -> CheckpointChoice | None:
    """Return the choice if stopping saves enough, with the energy of writing the checkpoint and reading it again."""
    facts, rules, within_s = planner.facts, planner.rules, checkpoint.within_s
    now_s = facts.now_s
    run_s = min((each for each in (facts.expected_run_s.get(job.job_id), job.limit_s) if each), default=0)
    ran_s = now_s - (job.start_s or now_s)
    left_s, latest_s = run_s - ran_s, latest_start_s(job, rules.hints(job), rules)
    if ran_s < LEAST_RUN_S or left_s < 4 * within_s or latest_s is None or latest_s <= now_s + within_s:
        return None
    go_on, again = planner.start_costs(left_s), planner.start_costs(left_s + within_s)
    write = planner.start_costs(within_s)
    if go_on is None or again is None or write is None:
        return None
    now, best = go_on.at(now_s), again.cheapest(now_s + within_s, latest_s)
    if best is None:
        return None
    total = StartCost(best.at_s, best.per_watt + write.at(now_s).per_watt)
    if best.at_s <= now_s + within_s or not saves_enough(total, now):
        return None
    unit = facts.prices.unit if facts.prices else ""
    why = (
        f"its last {duration_text(left_s)} cost {now.per_watt / left_s:.2f} {unit} now, and with a checkpoint"
        f" {total.per_watt / left_s:.2f} {unit} from {rules.clock(best.at_s, now_s)}"
    )
    inputs: Inputs = (("begin_s", float(best.at_s)), ("run_s", float(left_s)))
    node_power_w = facts.node_power_w.get(job.job_id)
    if node_power_w is not None:
        inputs += ((EXPECTED_SAVING, (now.per_watt - total.per_watt) * node_power_w * job.nodes / J_PER_MWH),)
    return CheckpointChoice(job, checkpoint, best.at_s, why, inputs)


def find_signalled(facts: QueueFacts) -> dict[str, tuple[Job, JobMark]]:
    """Return the running jobs that were asked for a checkpoint in their present run, by job."""
    marks = marks_by_job(facts.marks, facts.jobs)
    return {
        job.job_id: (job, mark)
        for job in facts.jobs
        if (mark := marks.get(job.job_id, NO_MARKS).get(CHECKPOINT)) is not None
        and job.state is JobState.RUNNING
        and job.start_s == mark.was
    }


def plan_checkpoints(
    facts: QueueFacts, rules: QueueRules, choices: Mapping[str, CheckpointChoice], permits: Mapping[str, RequeuePermit]
) -> CheckpointPlan:
    """Return the next step of each job that was asked, or that is better stopped now.

    `permits` are what the scheduler shows of these jobs; a job without one is left alone.
    """
    plan, signalled, now_s = CheckpointPlan(), find_signalled(facts), facts.now_s
    plan.forget.extend(_outdated_marks(facts, signalled))
    for job, mark in signalled.values():
        permit, late_s, choice = permits.get(job.job_id), now_s - mark.to, choices.get(job.job_id)
        is_written = permit is not None and permit.allowed
        # One cycle later the agent still sees a checkpoint that was written in time.
        if is_written and choice is not None and late_s <= 2 * facts.cycle_s:
            # An event imposes a begin time up to this; later rounds move it on.
            begin_s = min(choice.begin_s, now_s + CAP_AHEAD_S) if choice.until_s else choice.begin_s
            mark = JobMark(job.job_id, job.submit_s, REQUEUED, choice.until_s, begin_s, now_s)
            plan.requeue[job.job_id] = mark
            reason = f"its checkpoint is written: not before {rules.clock(begin_s, now_s)}, as {choice.why}"
            plan.decide(now_s, job, REQUEUED, reason, choice.inputs)
        elif is_written and choice is None:
            plan.decide(now_s, job, GOES_ON, "its checkpoint is written, but by now it gains too little")
        elif late_s > 0 and not is_written:
            why = f"no checkpoint within {duration_text(int(mark.to - mark.at_unix_s))} of the signal: it goes on"
            plan.decide(now_s, job, GOES_ON, why)
            if late_s < HOUR_S:
                plan.problems.append(f"job {job.job_id}: {why}")
    busy = sum(mark.to >= now_s for _, mark in signalled.values())
    for job_id, choice in choices.items():
        permit = permits.get(job_id)
        if job_id in signalled or permit is None:
            continue
        if permit.allowed:
            plan.decide(now_s, choice.job, GOES_ON, NO_PROOF)
        elif permit.restarts >= MOST_REQUEUES:
            plan.decide(now_s, choice.job, GOES_ON, f"it was started again {permit.restarts} times already")
        elif permit.restarts and now_s - (choice.job.start_s or 0) < LEAST_RUN_S:
            why = f"it was started again, and has run for less than {duration_text(LEAST_RUN_S)} since"
            plan.decide(now_s, choice.job, GOES_ON, why)
        elif busy < MOST_AT_ONCE:
            busy += 1
            signal, within_s = choice.checkpoint
            start_s, until_s = choice.job.start_s or 0, now_s + within_s
            plan.signals[job_id] = signal, JobMark(job_id, choice.job.submit_s, CHECKPOINT, start_s, until_s, now_s)
            text = f"asked by {signal} for a checkpoint within {duration_text(within_s)}: {choice.why}"
            plan.decide(now_s, choice.job, CHECKPOINT, text, choice.inputs)
    return plan


def plan_returns(facts: QueueFacts) -> tuple[dict[str, int], list[JobMark], list[JobMark]]:
    """Return the begin times to give to requeued jobs, by job, and the marks to write and to delete.

    Slurm counts a requeued job as submitted anew, and sets a begin time when its nodes are free, which may replace
    ours. So the begin time counts as given once the job shows it.
    """
    jobs = {job.job_id: job for job in facts.jobs}
    begin_s: dict[str, int] = {}
    given, served = [], []
    for mark in facts.marks:
        job = jobs.get(mark.job) if mark.kind == REQUEUED else None
        if job is None or job.submit_s < mark.submitted_unix_s:
            continue
        begins_s, settles = job.begin_s or 0, facts.now_s <= mark.at_unix_s + SETTLE_S
        if job.state is not JobState.PENDING:
            served += [] if settles else [mark]
        elif mark.to <= facts.now_s or begins_s > facts.now_s + BACK_OFF_S or not settles:
            served.append(mark)
            if begins_s == mark.to:
                given.append(JobMark(job.job_id, job.submit_s, BEGIN, 0, mark.to, facts.now_s))
                if mark.was:
                    given.append(JobMark(job.job_id, job.submit_s, BY_CAP, 1, mark.was, facts.now_s))
                at_s = int(mark.at_unix_s)
                given.append(shift_mark(job, Tier.T3, baseline_s=at_s, begin_s=mark.to, now_s=facts.now_s))
        elif begins_s <= facts.now_s or facts.now_s > mark.at_unix_s:
            begin_s[job.job_id] = mark.to
    return begin_s, given, served


def _outdated_marks(facts: QueueFacts, signalled: Mapping[str, object]) -> Iterable[JobMark]:
    """Return the marks of runs that are over; the hook forgets those of jobs that have gone."""
    listed = {(job.job_id, float(job.submit_s)) for job in facts.jobs}
    for mark in facts.marks:
        if mark.kind == CHECKPOINT and mark.job not in signalled and (mark.job, mark.submitted_unix_s) in listed:
            yield mark

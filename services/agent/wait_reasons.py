"""Why a job waits: one cause, the expected start with its range, and what its owner can do and save.

`explain_wait` has an answer for each job without nodes, whatever its scheduler reports. A cause that the scheduler
reports comes first, then what offpeak decided, then a count of the nodes. The expected start is that of the day plan,
else that of a simulation of the queue, else the scheduler's. Where nobody can know it, `start_condition` names what has
to happen first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from offpeak.display import duration_text, money_text
from offpeak.ledger.rows import DecisionRecord
from offpeak.machines.node_sets import fold
from offpeak.model.constants import HOUR_S, J_PER_MWH
from offpeak.model.flexibility import Flexibility
from offpeak.model.orders import PowerState
from offpeak.plugin.queue_hook.checkpoints import REQUEUED
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.positions import BEGIN, BY_CAP, NO_MARKS, MarksByJob, expected_saving, marks_by_job
from offpeak.plugin.queue_hook.queue_plan import BACK
from offpeak.plugin.queue_hook.start_times import NO_LIMIT, BeginTimePlanner, saves_enough
from offpeak.plugin.scheduler.cluster_view import free_share
from offpeak.plugin.scheduler.job import CLOSED_TO_JOB, Job, JobState
from offpeak.plugin.scheduler.node import COMING_UP, Node, NodeUse
from offpeak.power.live.decide import PoolOffer
from offpeak.text import counted


class Cause(StrEnum):
    """What keeps a job from starting.

    NODES: too few are free. PRIORITY: other jobs are first. LIMIT: the scheduler's limits and policies. HOLD: its owner
    or an admin. TIME: a begin time that offpeak did not set. PRICE: offpeak, for a cheaper hour. CAP: a limit of
    offpeak on power or nodes. ASLEEP: its nodes have to boot. REQUEST: no node could ever run it.
    """

    NODES = "nodes"
    PRIORITY = "priority"
    LIMIT = "limit"
    DEPENDENCY = "dependency"
    HOLD = "hold"
    TIME = "begin time"
    RESERVATION = "reservation"
    PRICE = "price"
    CAP = "cap"
    ASLEEP = "asleep"
    REQUEST = "request"


WITHOUT_NODES = frozenset({JobState.PENDING, JobState.HELD, JobState.STARTS})
"""The states of jobs that wait. A job that STARTS has nodes that still boot."""


class WaitReason(NamedTuple):
    """Why a job waits; times are Unix seconds.

    The expected start is `start_s`, that of 8 of 10 jobs between `from_s` and `by_s`. All are None if `start_condition`
    says what has to happen first.
    """

    cause: Cause
    sentence: str
    remedy: str
    start_s: int | None = None
    from_s: int | None = None
    by_s: int | None = None
    start_condition: str = ""


@dataclass(frozen=True, eq=False)
class WaitFacts:
    """What is known besides the facts of the queue.

    `starts_s` are the starts of jobs by a simulation of the queue [Unix s], and `spread` gives the shortest and the
    longest wait of 8 of 10 jobs with that expected wait, the wait itself as long as no error is known. `boot_ends_s` is
    when the boot of each node that boots is expected to end [Unix s]. `acts`: offpeak carries decisions about a job
    out.
    """

    nodes: Sequence[Node] = ()
    starts_s: Mapping[str, int] = field(default_factory=dict)
    is_simulated: bool = False
    spread: Callable[[int], tuple[int, int]] = lambda wait_s: (wait_s, wait_s)
    offers: Sequence[PoolOffer] = ()
    boot_ends_s: Mapping[str, int] = field(default_factory=dict)
    acts: Callable[[Job], bool] = lambda _: True
    scheduler: str = ""


NO_WAIT_FACTS = WaitFacts()


class _NodeCounts(NamedTuple):
    """The nodes that fit a request: all, those that are usable, free, and free but not up; of these, the names."""

    all: int
    usable: int
    free: int
    asleep: int
    booting: tuple[str, ...]
    sleeping: tuple[str, ...]


class WaitExplainer:
    """Explains the waits of the jobs of one queue. Nodes are counted once for equal requests."""

    def __init__(self, facts: QueueFacts, rules: QueueRules, known: WaitFacts) -> None:
        self._facts, self._rules, self._known = facts, rules, known
        self._marks: MarksByJob = marks_by_job(facts.marks, facts.jobs)
        self._counts: dict[tuple[tuple[int, ...], frozenset[str], float], _NodeCounts] = {}
        self._by_name = {node.name: node for node in known.nodes}
        self._planner = BeginTimePlanner(facts, rules)

    def explain_wait(self, job: Job, decision: DecisionRecord | None, ahead: int = 0) -> WaitReason:
        """Return why the job waits. `ahead` jobs that compete with it have a higher priority."""
        if job.state is JobState.STARTS:
            sentence = "offpeak or the scheduler wakes its nodes, and it starts when they have booted"
            if booting := self._describe_boots(job.known_hosts):
                sentence = f"it starts when its nodes have booted: {booting}"
            return WaitReason(Cause.ASLEEP, sentence, NOTHING, start_condition="as soon as its nodes have booted")
        reason = job.reason.lower()
        if "dependency" in reason:
            return self._of_dependency(job, reason)
        if job.state is JobState.HELD:
            return self._of_hold(job, reason)
        fit = self._facts.competition.fit(job)
        if fit.why_not and job.request is not None and self._facts.cluster.pools:
            remedy = f"submit it again with a request that the nodes can meet; `{self._text('cancel', job)}`"
            return WaitReason(Cause.REQUEST, fit.why_not, remedy, start_condition="never, with this request")
        return (
            self._of_begin_time(job, decision)
            or self._of_limit(job)
            or self._of_offer(job)
            or self._of_nodes(job, decision, ahead)
        )

    def _of_dependency(self, job: Job, reason: str) -> WaitReason:
        remedy = f"wait, or remove the dependency: `{self._text('independent', job)}`"
        if "never" in reason:
            sentence = "it depends on a job that did not end as requested, so it never starts"
            return WaitReason(Cause.DEPENDENCY, sentence, remedy, start_condition="never, with this dependency")
        sentence = "it depends on a job that has not ended"
        return WaitReason(Cause.DEPENDENCY, sentence, remedy, start_condition="after the jobs that it depends on")

    def _of_hold(self, job: Job, reason: str) -> WaitReason:
        by_owner = "user" in reason or reason.endswith(" u") or "by u" in reason
        sentence = "its owner holds it" if by_owner else f"it is held ({job.reason or 'by an administrator'})"
        remedy = f"release it: `{self._text('release', job)}`"
        if not by_owner:
            remedy = "ask the administrators to release it"
        return WaitReason(Cause.HOLD, sentence, remedy, start_condition="after its release")

    def _of_begin_time(self, job: Job, decision: DecisionRecord | None) -> WaitReason | None:
        begin_s, now_s = job.begin_s, self._facts.now_s
        if job.reservation:
            sentence = f"it runs in the reservation {job.reservation} only"
            remedy = "wait for the reservation, or submit it again without"
            return self._timed(job, Cause.RESERVATION, sentence, remedy, f"when {job.reservation} has room for it")
        if begin_s is None or begin_s <= now_s:
            return None
        marks = self._marks.get(job.job_id, NO_MARKS)
        until = self._rules.clock(begin_s, now_s)
        condition = f"not before {until}"
        ours = bool(marks.is_ours(BEGIN, begin_s))
        details = f": {decision.reason}" if decision and decision.decided not in ("left alone", BACK) else ""
        if ours and (BY_CAP in marks and marks[BY_CAP].to > now_s):
            sentence = f"a limit on the power of the cluster keeps it back until {until}{details}"
            return self._begins(job, Cause.CAP, sentence, self._opt_out(job), condition)
        if ours:
            gain = "cleaner" if self._facts.decides_by_co2 else "cheaper"
            stopped = "was stopped after a checkpoint and " if REQUEUED in marks else ""
            sentence = f"it {stopped}waits for a {gain} hour, as its hints allow{details}"
            return self._begins(job, Cause.PRICE, sentence, self._opt_out(job), condition)
        sentence = f"it was submitted or changed to begin at {until} at the earliest"
        return self._begins(job, Cause.TIME, sentence, f"begin now: `{self._text('begin', job)}`", condition)

    def _of_limit(self, job: Job) -> WaitReason | None:
        if not self._facts.startable_tasks(job):
            sentence = f"at most {counted(job.task_limit, 'task')} of its array may run at once"
            remedy = "wait for its running tasks, or raise the limit of the array"
            return self._timed(job, Cause.LIMIT, sentence, remedy, "when a running task of the array ends")
        if job.lacks_only_nodes:
            return None
        if job.was_passed_over:
            sentence = "nodes were free for it, and the scheduler started it on none: a limit or a policy keeps it back"
        elif job.reason.startswith(CLOSED_TO_JOB):
            sentence = f"its partition, account or reservation admits no job now ({job.reason})"
        else:
            sentence = f"a limit of the scheduler keeps it back ({job.reason})"
        remedy = "wait for jobs that count against the same limit, or ask the administrators"
        return self._timed(job, Cause.LIMIT, sentence, remedy, "when the limit admits it")

    def _of_offer(self, job: Job) -> WaitReason | None:
        """Return the limit on the number of nodes in use, if the job would exceed it."""
        offer = self._find_offer(job)
        if offer is None or offer.by_queue:
            return None
        sentence = f"offpeak lets jobs use {offer.offered:,} of {counted(offer.usable, 'node')} now ({offer.policy})"
        return self._timed(job, Cause.CAP, sentence, self._smaller(job), "when more nodes are in use again")

    def _find_offer(self, job: Job) -> PoolOffer | None:
        """Return the offer of nodes that the job would exceed."""
        counts, needed = self._count_nodes(job), self._needed(job)
        for offer in self._known.offers:
            fits = offer.offered >= min(offer.usable, counts.usable - counts.free + needed)
            if not fits and not offer.partitions.isdisjoint(job.partitions):
                return offer
        return None

    def _of_nodes(self, job: Job, decision: DecisionRecord | None, ahead: int) -> WaitReason:
        counts, needed = self._count_nodes(job), self._needed(job)
        awake, later = counts.free - counts.asleep, "when nodes that fit it are usable again"
        if decision is not None and decision.decided == BACK and ahead and self._known.acts(job):
            sentence = f"offpeak has put it back: {decision.reason}"
            return self._timed(job, Cause.PRICE, sentence, self._opt_out(job), "in its turn")
        if not counts.all:
            sentence = "the scheduler shows no node that its request fits"
            return self._timed(job, Cause.NODES, sentence, "wait, or ask the administrators", later)
        if counts.usable < needed:
            able = f"{counts.usable:,} of the {counts.all:,} that fit it"
            sentence = f"it needs {counted(needed, 'node')}, and {able} {'is' if counts.usable == 1 else 'are'} usable"
            return self._timed(job, Cause.NODES, sentence, "wait, or request fewer nodes", later)
        if ahead:
            wait = "waits" if ahead == 1 else "wait"
            sentence = f"{counted(ahead, 'job')} with a higher priority {wait} for the same nodes"
            return self._timed(job, Cause.PRIORITY, sentence, self._smaller(job), "in its turn")
        if self._find_offer(job) is not None:
            sentence = "nodes in use become free for it before sleeping ones would have booted"
            if booting := self._describe_boots(counts.booting):
                other = f" instead of waking {counts.sleeping[0]}" if counts.sleeping else ""
                sentence = f"it waits for nodes that come up{other}: {booting}"
            return self._timed(job, Cause.NODES, sentence, NOTHING, "when enough nodes are free")
        if awake < needed <= counts.free:
            sleepers = needed - awake
            sentence = f"{counted(sleepers, 'node')} of the {needed:,} that it needs must boot first"
            if booting := self._describe_boots(counts.booting):
                sentence += f": {booting}"
            return self._timed(job, Cause.ASLEEP, sentence, NOTHING, "when its nodes have booted")
        if awake >= needed:
            sentence = "nodes are free for it, and the scheduler starts it in one of its next cycles"
            return self._timed(job, Cause.NODES, sentence, NOTHING, "in one of the scheduler's next cycles")
        free = f"{counts.free:,} of the {counts.all:,} that fit it {'is' if counts.free == 1 else 'are'} free"
        sentence = f"it needs {counted(needed, 'node')}, and {free}"
        return self._timed(job, Cause.NODES, sentence, self._smaller(job), "when enough nodes are free")

    def _timed(self, job: Job, cause: Cause, sentence: str, remedy: str, condition: str) -> WaitReason:
        """Return the reason with the expected start if it is known, else with the condition."""
        now_s, planned = self._facts.now_s, self._facts.planned
        start_s = planned.start_s.get(job.job_id) if planned is not None else None
        start_s = start_s or self._known.starts_s.get(job.job_id) or job.start_s
        if start_s is None or (start_s <= now_s and job.job_id not in self._known.starts_s):
            if job.lacks_only_nodes and not self._known.is_simulated and cause is not Cause.RESERVATION:
                condition += "; the time is being computed, ask again in a minute"
            return WaitReason(cause, sentence, remedy, start_condition=condition)
        wait_s = max(start_s - now_s, 0)
        low_s, high_s = self._known.spread(wait_s)
        return WaitReason(
            cause, sentence, remedy, now_s + wait_s, now_s + min(low_s, wait_s), now_s + max(high_s, wait_s)
        )

    def _begins(self, job: Job, cause: Cause, sentence: str, remedy: str, condition: str) -> WaitReason:
        """Return the reason of a job with a begin time: it starts then, or after the wait that is allowed for."""
        begin_s = job.begin_s or 0
        wait_s = max(self._facts.wait_allowance(job).wait_s, 0)
        later_s = self._known.spread(wait_s)[1] if wait_s else 0
        return WaitReason(cause, sentence, remedy, begin_s, begin_s, begin_s + max(wait_s, later_s), condition)

    def _describe_boots(self, names: Sequence[str]) -> str:
        """Return which of the nodes boot, and until when; "" if none does."""
        ends_s = {name: self._known.boot_ends_s[name] for name in names if name in self._known.boot_ends_s}
        if not ends_s:
            return ""
        last_s, verb = max(ends_s.values()), "boots" if len(ends_s) == 1 else "boot"
        if last_s <= self._facts.now_s:
            return f"{fold(ends_s)} {verb}, longer than usual"
        return f"{fold(ends_s)} {verb} until about {self._rules.clock(last_s, self._facts.now_s)}"

    def _needed(self, job: Job) -> int:
        return max(job.nodes, 1)

    def _count_nodes(self, job: Job) -> _NodeCounts:
        fit = self._facts.competition.fit(job)
        share = fit.filled_nodes / self._needed(job) if 0 < fit.filled_nodes < self._needed(job) else 1.0
        named = job.required_hosts if len(job.required_hosts) >= self._needed(job) else frozenset()
        key = fit.pools, named, share
        if key not in self._counts:
            of_pools = {name for pool in fit.pools for name in self._facts.cluster.pools[pool].names}
            names = sorted(of_pools & named if named else of_pools)
            nodes = [self._by_name[name] for name in names if name in self._by_name]
            usable = [node for node in nodes if _is_usable(node)]
            asleep = [node for node in usable if _is_asleep(node) and node.use is NodeUse.FREE]
            free = len(asleep) + sum(not _is_asleep(node) and free_share(node) >= share for node in usable)
            booting = tuple(node.name for node in asleep if node.name in self._known.boot_ends_s)
            sleeping = tuple(node.name for node in asleep if node.power is PowerState.OFF)
            self._counts[key] = _NodeCounts(len(nodes), len(usable), free, len(asleep), booting, sleeping)
        return self._counts[key]

    def _smaller(self, job: Job) -> str:
        """Return how a job that waits for nodes may start earlier."""
        if job.limit_s is None:
            return f"set a time limit, so that it can start in a gap: `{self._text('limit', job)}`"
        return "request fewer nodes or a shorter time limit: it can then start in a gap"

    def _opt_out(self, job: Job) -> str:
        """Return the command that opts the job out."""
        how = "let it" if self._known.scheduler.startswith("slurm") else "submit it again to"
        return f"{how} start as soon as it can: `{self._text('now', job)}`"

    def _text(self, what: str, job: Job) -> str:
        slurm, pbs = COMMANDS[what]
        return (slurm if self._known.scheduler.startswith("slurm") else pbs).format(job=job.job_id)

    def possible_saving(
        self, job: Job, decision: DecisionRecord | None, hints: Flexibility, start_s: int | None
    ) -> str:
        """Return what the wait saves, or what a delay would save; a text for each reason why it saves nothing."""
        facts, currency = self._facts, self._facts.prices.currency if self._facts.prices else ""
        expected = None if decision is None else expected_saving(dict(decision.inputs), job.tasks)
        if expected is not None:
            return f"{money_text(expected, currency)} expected, compared with a start now"
        if hints.now:
            return "nothing: it opted out"
        if self._rules.longest_delay_s <= 0:
            return "nothing: this site delays no jobs"
        if hints.deadline_s is not None and job.limit_s is None:
            return NO_LIMIT
        run_s, power_w = facts.expected_run_s.get(job.job_id, job.limit_s), facts.node_power_w.get(job.job_id)
        costs = self._planner.start_costs(run_s) if run_s else None
        if costs is None or power_w is None or run_s is None:
            missing = "its run time" if not run_s else "its power" if power_w is None else "the price"
            return f"not known, because {missing} is not known"
        from_s = max(facts.now_s, start_s or 0)
        until_s = max(from_s, facts.now_s + min(self._rules.longest_delay_s, HINT_S))
        now, best = costs.at(from_s), costs.cheapest(from_s, until_s)
        if best is None or now.per_watt != now.per_watt:
            return "not known, because the price of the coming hours is not known"
        if not saves_enough(best, now):
            return f"nothing: no start in the next {duration_text(until_s - facts.now_s)} is cheaper"
        amount = (now.per_watt - best.per_watt) * power_w * job.nodes * job.tasks / J_PER_MWH
        hint = self._text("delay", job)
        return (
            f"{money_text(amount, currency)} if it may wait until {self._rules.clock(best.at_s, facts.now_s)}: `{hint}`"
        )


HINT_S = 12 * HOUR_S
"""The delay of the hint that is suggested."""
NOTHING = "nothing to do"
COMMANDS = {
    "now": ("scontrol update jobid={job} comment=offpeak:now", "qsub -v OFFPEAK=now job.sh"),
    "delay": ("scontrol update jobid={job} comment=offpeak:delay=12h", "qsub -v OFFPEAK=delay=12h job.sh"),
    "release": ("scontrol release {job}", "qrls {job}"),
    "independent": ("scontrol update jobid={job} dependency=", "qalter -W depend= {job}"),
    "begin": ("scontrol update jobid={job} starttime=now", "qalter -a $(date +%m%d%H%M) {job}"),
    "limit": ("scontrol update jobid={job} timelimit=2:00:00", "qalter -l walltime=2:00:00 {job}"),
    "cancel": ("scancel {job}", "qdel {job}"),
}
"""What an owner types on Slurm, and on PBS, where the environment of a job is set at its submission."""


def _is_asleep(node: Node) -> bool:
    return node.power is PowerState.OFF or node.power is PowerState.POWERING_OFF or node.power in COMING_UP


def _is_usable(node: Node) -> bool:
    kept = node.closed and not node.closed_by_us
    return not (node.failed or node.reserved or kept)

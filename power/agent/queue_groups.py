"""What is planned for the queue, by the partitions of the jobs: each may have a mode of its own."""

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from offpeak.ledger.rows import DecisionRecord
from plugin.queue_hook.queue_plan import QueuePlan
from plugin.queue_hook.reorder import MOVES
from plugin.scheduler.job import Job


@dataclass(frozen=True)
class Group:
    """What is to be written of jobs in these partitions, by job as in QueuePlan.

    `moved` are the jobs that change places by that: of equal priorities fewer have to be written.
    """

    partitions: tuple[str, ...]
    rank: Mapping[str, int] = field(default_factory=dict)
    begin_s: Mapping[str, int] = field(default_factory=dict)
    tell: Mapping[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The partitions in one word."""
        return ",".join(self.partitions)


def advice(group: Group, decided: Mapping[str, DecisionRecord], told: Mapping[str, str]) -> dict[str, str]:
    """Return what owners see in a partition where nothing is done: what would be, and what they are told besides."""
    would = {
        job: decided[f"job {job}"] for job in {*group.rank, *group.begin_s, *group.moved} if f"job {job}" in decided
    }
    texts = {job: f"would be {each.decided}: {each.reason}" for job, each in would.items()}
    besides = {job: group.tell.get(job, told.get(job, "")) for job in {*texts, *group.tell}}
    return {job: "; ".join(each for each in (texts.get(job), besides[job]) if each) for job in besides}


def grouped(
    plan: QueuePlan, jobs: Mapping[str, Job], kind_of: Callable[[tuple[str, ...]], Hashable] | None = None
) -> tuple[Group, ...]:
    """Return the plan's groups, sorted by their names: jobs whose partitions are of one kind, or the same ones."""
    members: dict[Hashable, list[str]] = defaultdict(list)
    moved = dict.fromkeys(each.subject.removeprefix("job ") for each in plan.decisions if each.decided in MOVES)
    for job in {**plan.rank, **plan.begin_s, **plan.tell, **moved}:
        partitions = jobs[job].partitions
        members[kind_of(partitions) if kind_of else partitions].append(job)
    return tuple(sorted((_group(each, plan, jobs, moved) for each in members.values()), key=attrgetter("partitions")))


def _group(members: list[str], plan: QueuePlan, jobs: Mapping[str, Job], moved: Container[str]) -> Group:
    return Group(
        tuple(sorted({partition for job in members for partition in jobs[job].partitions})),
        {job: plan.rank[job] for job in members if job in plan.rank},
        {job: plan.begin_s[job] for job in members if job in plan.begin_s},
        {job: plan.tell[job] for job in members if job in plan.tell},
        frozenset(job for job in members if job in moved),
    )

"""Each job as its owner asks about it: its place, why it waits, when it would start, and what that saves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offpeak.ledger.rows import DecisionRecord
from plugin.queue_hook.facts import QueueFacts, QueueRules, resource_pool
from plugin.queue_hook.positions import QueuePosition, marks_by_job, pending_jobs, queue_positions
from plugin.queue_hook.user_hints import parse_user_hints
from plugin.scheduler.job import Job, JobState
from power.agent.published import JobSaid

SHOWN = frozenset({JobState.PENDING, JobState.HELD, JobState.STARTS, JobState.RUNNING, JobState.SUSPENDED})


@dataclass(frozen=True)
class Place:
    """Where a job stands among the `of` that compete with it, from 1, and where it would stand without us."""

    now: int
    by_site: int
    of: int

    @property
    def moved(self) -> str:
        """How far it was moved, "" where it was not."""
        up = self.by_site - self.now
        return "" if up == 0 else f"{'up' if up > 0 else 'down'} {abs(up)}"


def jobs_said(facts: QueueFacts, rules: QueueRules, decided: Mapping[str, DecisionRecord]) -> tuple[JobSaid, ...]:
    """Return all jobs that wait or run: first those that wait, each competition in its order."""
    places = places_of(queue_positions(pending_jobs(facts.jobs), marks_by_job(facts.marks, facts.jobs), facts).all)
    shown = [job for job in facts.jobs if job.state in SHOWN]
    last = len(shown) + 1
    shown.sort(key=lambda job: (resource_pool(job), places[job.job_id].now if job.job_id in places else last))
    shown.sort(key=lambda job: job.state is not JobState.PENDING)
    return tuple(
        _in_line(_said(job, facts, rules, decided.get(f"job {job.job_id}")), places.get(job.job_id)) for job in shown
    )


def places_of(standings: Sequence[QueuePosition]) -> dict[str, Place]:
    """Return the place of each job that waits, among those of its competition."""
    lines: dict[object, list[QueuePosition]] = {}
    for each in standings:
        lines.setdefault(resource_pool(each.job), []).append(each)
    places: dict[str, Place] = {}
    for line in lines.values():
        now, by_site = (
            {each.job.job_id: at for at, each in enumerate(ordered, 1)}
            for ordered in (
                sorted(line, key=lambda each: (-each.job.priority, each.number)),
                sorted(line, key=lambda each: (-each.site, each.number)),
            )
        )
        places |= {job: Place(at, by_site[job], len(line)) for job, at in now.items()}
    return places


def _in_line(said: JobSaid, place: Place | None) -> JobSaid:
    if place is None:
        return said
    return replace(said, place=place.now, of=place.of, moved=place.moved)


def _said(job: Job, facts: QueueFacts, rules: QueueRules, decision: DecisionRecord | None) -> JobSaid:
    waits = job.state is JobState.PENDING
    inputs = dict(decision.inputs) if decision and waits else {}
    planned_s = job.start_s if waits and job.start_s and job.start_s > facts.now_s else None
    if planned_s is None and waits and facts.planned is not None:
        planned_s = facts.planned.start_s.get(job.job_id)
    return JobSaid(
        job_id=job.job_id,
        user=job.user,
        partition=",".join(job.partitions),
        state=job.state_word,
        nodes=job.nodes,
        place=None,
        of=0,
        watts_per_node=facts.node_power_w.get(job.job_id),
        why=_why(job, decision if waits else None),
        would_start_unix_s=planned_s,
        latest_start_unix_s=_number(inputs.get("latest_start_s")),
        expected_saving=_number(inputs.get("saved")),
        currency=facts.prices.currency if facts.prices else "",
        opted_out=parse_user_hints(job.comment, rules.zone).now,
    )


def _why(job: Job, decision: DecisionRecord | None) -> str:
    scheduler = f"the scheduler says {job.reason}" if job.reason and job.reason != "None" else ""
    ours = f"{decision.decided}, {decision.reason}" if decision else ""
    return "; ".join(each for each in (ours, scheduler) if each)


def _number(value: float | str | None) -> float | None:
    return value if isinstance(value, float | int) else None

"""The lines of waiting jobs, one for each competition, as the site has them, and what an admin has set in them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from plugin.queue_hook.facts import Competition, QueueFacts, competition, number_of
from plugin.queue_hook.hands import out_of_line
from plugin.queue_hook.standing import BY_HAND, NO_MARKS, RANK, MarkedJobs, Standing, rank_standing
from plugin.scheduler.job import Job, JobState
from plugin.scheduler.port import Ranking


@dataclass(frozen=True)
class Standings:
    """All pending jobs, and which of them somebody set by hand; of `new_hands` that is not marked yet."""

    all: Sequence[Standing]
    by_hand: frozenset[str]
    new_hands: Sequence[Standing]


def standings_of(jobs: Iterable[Job], marked: MarkedJobs, facts: QueueFacts) -> Standings:
    """Return where every pending job stands; where one was set by hand its value is what it has."""
    found, noted = [], set()
    for job in jobs:
        marks = marked.get(job.job_id, NO_MARKS)
        found.append(rank_standing(job, number_of(job.job_id), marks, facts.ranking))
        if marks and RANK + BY_HAND in marks:
            noted.add(job.job_id)
    seen = {each.job.job_id for each in found if each.strange} | facts.set_by_hand
    if facts.ranking is Ranking.VALUE:
        others = noted | seen
        plain = [each for each in found if each.job.plain and each.job.job_id not in others]
        seen |= {each.job.job_id for each in out_of_line(plain) if not each.share}
    by_hand = frozenset(noted | seen)
    unnoted = seen - noted
    new = [each for each in found if each.job.job_id in unnoted and each.job.plain]
    return Standings([_as_set(each) if each.job.job_id in by_hand else each for each in found], by_hand, new)


def _as_set(each: Standing) -> Standing:
    return each._replace(site=each.job.priority, share=0)


def pending(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs that wait for their turn; those that somebody holds are none of them."""
    return [job for job in jobs if job.state is JobState.PENDING]


def lines_of(standings: Sequence[Standing], *, now_s: int, later: Collection[str]) -> dict[Competition, list[Standing]]:
    """Return the plain jobs of each competition that could start now, in the site's order."""
    lines: dict[Competition, list[Standing]] = {}
    for each in standings:
        job = each.job
        if job.plain and job.job_id not in later and (job.begin_s is None or job.begin_s <= now_s):
            lines.setdefault(competition(job), []).append(each)
    for line in lines.values():
        line.sort(key=attrgetter("number"))
        line.sort(key=attrgetter("site"), reverse=True)
    return lines

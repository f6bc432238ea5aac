"""Which jobs ran at the last look, as JSON for a program that starts anew: small, the words of users left out."""

import json
from dataclasses import replace

from plugin.scheduler.job import Job, JobState
from power.accounts.ran_jobs import Ended, Ran

NAME = "jobs"
"""Under which the ledger remembers it."""
EVERY_S = 60
"""How often it is worth writing at the most."""


def worth_keeping(kept: Ran | None, ran: Ran) -> bool:
    """Tell whether what is kept is old, and another now."""
    if kept is None or ran.at_s < kept.at_s:
        return True
    others = ran.running.keys() != kept.running.keys() or ran.waiting.keys() != kept.waiting.keys()
    return others and ran.at_s - kept.at_s >= EVERY_S


def ran_json(ran: Ran) -> str:
    """Return what `ran_of` takes."""
    waiting = [[*_short(ended.job), ended.seen_s, ended.unseen] for ended in ran.waiting.values()]
    running = [_short(job) for job in ran.running.values()]
    kept = {
        "fields": Job._fields,
        "at_s": ran.at_s,
        "running": running,
        "waiting": waiting,
        "booked": sorted(ran.booked),
    }
    return json.dumps(kept, separators=(",", ":"))


def ran_of(text: str | None) -> Ran | None:
    """Return what `ran_json` wrote; None for nothing, and for what another version of the program wrote."""
    try:
        kept = json.loads(text or "null")
        if not kept or tuple(kept["fields"]) != Job._fields:
            return None
        running = {job.job_id: job for job in map(_job, kept["running"])}
        ended = [Ended(_job(job), seen_s, unseen) for *job, seen_s, unseen in kept["waiting"]]
        booked = frozenset((number, start_s) for number, start_s in kept["booked"])
    except (ValueError, KeyError, TypeError):
        return None
    return replace(
        Ran(kept["at_s"], running), waiting={(e.job.job_id, e.job.start_s or 0): e for e in ended}, booked=booked
    )


def _short(job: Job) -> Job:
    return job._replace(comment="", reason="", needs="", reservation="", qos="", state_word="")


def _job(row: list[object]) -> Job:
    job = Job(*row)  # type: ignore[arg-type]
    return job._replace(state=JobState(job.state), partitions=tuple(job.partitions))

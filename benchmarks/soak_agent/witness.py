"""What must not be: each finding is a line in words. The witnesses are the jobs, the nodes' power and the ledger."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from offpeak.door.journal import IntentResult

SLEEP = "soft_off"
HOUR_S = 3600.0
UP = ("up", "booting")


@dataclass(frozen=True)
class Run:
    """One run of the agent, with its limits: from its start to its end (Unix seconds)."""

    begun_s: float
    ended_s: float
    per_hour: int
    min_on: int


def of_jobs(jobs: Collection[str], trace: Sequence[Any]) -> Iterator[str]:
    """Yield the jobs that did not start and end once each."""
    starts, ends = (Counter(each.job for each in trace if each.what == what) for what in ("start", "end"))
    for job in jobs:
        if (starts[job], ends[job]) != (1, 1):
            yield f"job {job} has started {starts[job]} times and ended {ends[job]} times"


def of_limits(actions: Sequence[IntentResult], runs: Sequence[Run]) -> Iterator[str]:
    """Yield the runs in which more nodes were told to sleep within an hour than was allowed."""
    ordered_s = sorted(action.intent.at_unix_s for action in actions if action.intent.effect.order == SLEEP)
    for run in runs:
        for at_s in (at_s for at_s in ordered_s if run.begun_s <= at_s < run.ended_s):
            count = sum(at_s - HOUR_S < value <= at_s for value in ordered_s)
            if count > run.per_hour:
                yield f"per_hour: {count} nodes were told to sleep, at most {run.per_hour} may be"


def of_power(events: Sequence[Any], runs: Sequence[Run], nodes: Collection[str]) -> Iterator[str]:
    """Yield where power was taken from a job, and where fewer nodes were left on than had to be."""
    on = set(nodes)
    for event in events:
        if event.jobs and event.what in (SLEEP, "hard_off", "off"):
            yield f"{event.node}: {event.what} while {', '.join(event.jobs)} ran there"
        if event.what in UP:
            on.add(event.node)
        if event.what not in (SLEEP, "off"):
            continue
        on.discard(event.node)
        run = next((run for run in runs if run.begun_s <= event.at_s < run.ended_s), None)
        if event.what == SLEEP and run is not None and len(on) < run.min_on:
            yield f"min_on: {len(on)} nodes were left, {run.min_on} have to stay"


def of_ledger(actions: Sequence[IntentResult], events: Sequence[Any]) -> Iterator[str]:
    """Yield the intents of which nobody knows what became, and nodes that were told other things than it says."""
    for action in actions:
        if action.outcome is None:
            yield f"{action.intent.effect.subject}: intent {action.intent.number} has no outcome"
    sleeps = [action for action in actions if action.intent.effect.order == SLEEP]
    meant = Counter(sleep.intent.effect.subject for sleep in sleeps)
    certain = Counter(e.intent.effect.subject for e in sleeps if e.outcome is not None and e.outcome.result == "done")
    received = Counter(event.node for event in events if event.what == SLEEP)
    for node in meant | received:
        if not certain[node] <= received[node] <= meant[node]:
            booked = f"{meant[node]} orders to sleep in the ledger, {certain[node]} of them accepted"
            yield f"{node}: its BMC was told to sleep {received[node]} times: {booked}"

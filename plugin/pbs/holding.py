"""Which nodes jobs hold: a suspended job is not among a node's jobs, and still has it."""

import re
from collections.abc import Callable, Iterable, Sequence

from plugin.pbs.ask import CannotAskPbs, PbsIsSilent
from plugin.pbs.told_job import ToldJob
from plugin.scheduler.job import HOLDING, JobState
from plugin.scheduler.node import Node, NodeUse

CHUNK = 500
"""How many jobs qstat is asked for at once: their names fit on a command line."""
TRIES = 3

_SUBJOB = re.compile(r"\[\d+\]")


def read_holding_jobs(
    select: Callable[[], Sequence[str]], read: Callable[[Sequence[str]], tuple[ToldJob, ...]]
) -> tuple[ToldJob, ...]:
    """Return the jobs that `select` names, as `read` shows them, so that a long queue is not read for one node.

    A job that ends between the two answers makes qstat fail: both are asked again. CannotAskPbs where a job is not
    shown after three attempts.
    """
    for attempt in range(TRIES):
        try:
            return _read_selected(select(), read)
        except PbsIsSilent:
            raise
        except CannotAskPbs:
            if attempt == TRIES - 1:
                raise
    raise AssertionError


def _read_selected(names: Sequence[str], read: Callable[[Sequence[str]], tuple[ToldJob, ...]]) -> tuple[ToldJob, ...]:
    jobs = [job for at in range(0, len(names), CHUNK) for job in read(names[at : at + CHUNK])]
    shown = {each.job.job_id for each in jobs}
    # An array stands for its subjobs.
    shown |= {_SUBJOB.sub("[]", name) for name in shown}
    if missing := [name for name in names if name not in shown]:
        what = f"qstat: does not show {', '.join(missing)}, which qselect names"
        raise CannotAskPbs(what, hint=f"compare `qselect` with `qstat -f {missing[0]}`")
    return tuple(jobs)


def holders(jobs: Iterable[ToldJob]) -> dict[str, list[str]]:
    """Return the jobs that have, or may have, each node."""
    found: dict[str, list[str]] = {}
    for told in jobs:
        if told.job.state in HOLDING:
            for node in told.job.hosts.split(",") if told.job.hosts else ():
                found.setdefault(node, []).append(told.job.job_id)
    return found


def with_holders(nodes: Iterable[Node], jobs: Iterable[ToldJob]) -> tuple[Node, ...]:
    """Return the nodes, those used that a suspended job has."""
    suspended = holders(each for each in jobs if each.job.state is JobState.SUSPENDED)
    return tuple(
        node._replace(use=NodeUse.USED) if node.name in suspended and node.use is NodeUse.FREE else node
        for node in nodes
    )

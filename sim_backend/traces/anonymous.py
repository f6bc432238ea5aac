"""Takes people and projects out of a log: what is printed of it may then leave the site."""

from dataclasses import replace

import numpy as np

from offpeak.model.arrays import Int64
from offpeak.model.jobs import Trace


def anonymised(trace: Trace) -> Trace:
    """Return the log with users, groups, queues and applications numbered in the order in which they first submitted.

    Job ids stay: they name nobody, and whoever may see the scheduler's books can look them up.
    """
    names, jobs = trace.names, trace.jobs
    return replace(
        trace,
        names=replace(
            names,
            user=_numbered("user", jobs.user, names.user),
            group=_numbered("group", jobs.group, names.group),
            queue=_numbered("queue", jobs.queue, names.queue),
            application=_numbered("application", jobs.application, names.application),
        ),
    )


def _numbered(word: str, code: Int64, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a new name for each code; names without a job come last."""
    codes, first = np.unique(code[code >= 0], return_index=True)
    order = codes[np.argsort(first)].tolist()
    rank = {code: number for number, code in enumerate(order, 1)}
    for unused in range(len(names)):
        rank.setdefault(unused, len(rank) + 1)
    return tuple(f"{word}{rank[number]}" for number in range(len(names)))

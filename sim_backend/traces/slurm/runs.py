"""Which lines of Slurm's accounting are jobs that ran, each counted once, and why the others are not, by job state."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import RejectedJobs
from sim_backend.traces.records import ColumnStore, note_on, rejected_jobs

WAITING = frozenset(("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
NEVER_STARTED = WAITING | {"CANCELLED", "DEADLINE", "REQUEUED", "REVOKED"}
"""Jobs that end like this may have waited until then."""

RUNNING = frozenset(
    ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
ENDED = frozenset(
    (
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REQUEUED",
        "DEADLINE",
        "BOOT_FAIL",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "REVOKED",
    )
)
KNOWN = WAITING | NEVER_STARTED | RUNNING | ENDED


def state_names(states: tuple[bytes, ...]) -> tuple[str, ...]:
    """Return the first word of each state, such as CANCELLED of "CANCELLED by 1000" or of its cut form CANCELLED+."""
    return tuple(_whole(text.decode(errors="replace").partition(" ")[0]) for text in states)


def _whole(name: str) -> str:
    """Return the state that `sacct` without -P has cut to a column of ten letters, or the name as it is."""
    if not name.endswith("+"):
        return name
    begins = [known for known in KNOWN if known.startswith(name[:-1])]
    return begins[0] if len(begins) == 1 else name


def is_one_of(among: frozenset[str], code: Int64, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for each job, by the code of its state, whether the state is one of these."""
    return np.array([name in among for name in names], np.bool_)[code]


REASONS = (
    "never started",
    "start unknown",
    "run time unknown",
    "no processors or nodes",
    "running for more than a day beyond their limit: `sacctmgr show runawayjobs` lists such jobs and can end them",
)
NEVER = 0
RAN = -1


@dataclass(frozen=True)
class SlurmRuns:
    """The indices of the lines of jobs that ran, and the state of the others."""

    kept: Int64
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]


def runs_of(jobs: ColumnStore, number: Int64, states: tuple[bytes, ...]) -> SlurmRuns:
    """Sort out the lines of jobs (see `jobs.JobLines.table`), whose numbers these are; `states` by code.

    Lines of one number and start are one run; the one that lasted longest counts.
    """
    names = state_names(states)
    is_running = is_one_of(RUNNING, jobs.get("State"), names) & (jobs.get("end_s") < 0)
    reason = _reason(jobs, is_running, names)
    once = _once(number, jobs)
    kept = once[reason[once] == RAN]
    left = once[reason[once] != RAN]
    repeated = len(number) - len(once)
    del once
    # What still waits in one dump may have run in the next.
    left = left[(reason[left] != NEVER) | ~np.isin(number[left], number[kept])]
    notes = (
        *note_on(int(np.count_nonzero(is_running[kept])), "still running: counted with the run time so far"),
        *note_on(_repeated(number[kept]), "of requeued jobs: counted as jobs of their own", "more run"),
        *note_on(repeated, "of a job that is there already: left out", "line"),
        *_state_notes(jobs.get("State")[kept], names),
    )
    reason, number = reason[left], number[left]
    rejected = (rejected_jobs(text, np.unique(number[reason == index])) for index, text in enumerate(REASONS))
    return SlurmRuns(kept, tuple(each for jobs in rejected for each in jobs), notes)


def _reason(jobs: ColumnStore, is_running: NDArray[np.bool_], names: tuple[str, ...]) -> NDArray[np.int8]:
    """Return for each line the index of the reason why it is no job that ran, RAN if there is none."""
    reason = np.full(len(jobs), RAN, np.int8)

    def mark(which: int, faulty: NDArray[np.bool_]) -> None:
        reason[faulty & (reason == RAN)] = which

    runtime_s = jobs.get("runtime_s")
    unstarted, unended = jobs.get("start_s") < 0, runtime_s < 0
    is_runaway = is_running & ((limit_s := jobs.get("limit_s")) > 0) & (runtime_s > limit_s + DAY_S)
    useless = runtime_s <= 0
    del runtime_s, limit_s
    nodeless = jobs.get("nodes") <= 0
    nowhere = (jobs.get("processors") <= 0) | (nodeless & ~nodeless.all())
    state = jobs.get("State")
    waited = is_one_of(NEVER_STARTED, state, names) & useless & (unstarted | nowhere)
    mark(NEVER, is_one_of(WAITING, state, names) | waited)
    for which, faulty in enumerate((unstarted, unended, nowhere, is_runaway), NEVER + 1):
        mark(which, faulty)
    return reason


def _once(number: Int64, jobs: ColumnStore) -> Int64:
    """Return the indices of all lines but those of a run that another line has to a later end; in order."""
    if not _repeated(number):
        return np.arange(len(number))
    start_s = jobs.get("start_s")
    order = np.lexsort((jobs.get("runtime_s"), start_s, number))
    another = np.diff(number[order], append=-1) | np.diff(start_s[order], append=-2)
    return np.sort(order[another != 0])


def _repeated(number: Int64) -> int:
    """Return how many of the numbers are there already."""
    in_order = np.sort(number)  # numpy's own `unique` is several times slower
    return int(np.count_nonzero(in_order[1:] == in_order[:-1]))


def _state_notes(state: Int64, names: tuple[str, ...]) -> tuple[str, ...]:
    jobs = np.bincount(state, minlength=len(names)).tolist()
    strange = {name: count for name, count in zip(names, jobs, strict=True) if count and name not in KNOWN}
    what = f"in an unknown state ({', '.join(sorted(strange))}): counted as having run"
    return note_on(sum(strange.values()), what)

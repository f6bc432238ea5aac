"""Which lines of Slurm's accounting are jobs that ran, each counted once, and why the others are not."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from offpeak.jobs import Int64, Rejected
from offpeak.plural import counted
from offpeak.zones import DAY_S
from sim_backend.traces.slurm.states import KNOWN, NEVER_STARTED, RUNNING, WAITING, is_one_of, words_of

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
class Runs:
    """The indices of the lines that are jobs which ran, and what became of the others."""

    kept: Int64
    rejected: tuple[Rejected, ...]
    notes: tuple[str, ...]


def runs_of(jobs: pa.Table, number: Int64) -> Runs:
    """Sort out the lines of jobs (see `jobs.JobLines.table`), whose numbers these are.

    Lines of one number and start are one run; the one that lasted longest counts.
    """
    is_running = is_one_of(RUNNING, jobs["State"].combine_chunks()) & (_column(jobs, "end_s") < 0)
    reason = _reason(jobs, is_running)
    once = _once(number, _column(jobs, "start_s"), _column(jobs, "runtime_s"))
    kept = once[reason[once] == RAN]
    left = once[reason[once] != RAN]
    # What still waits in one dump may have run in the next.
    left = left[(reason[left] != NEVER) | ~np.isin(number[left], number[kept])]
    notes = (
        *_note(int(np.count_nonzero(is_running[kept])), "job", "still running: counted with the run time so far"),
        *_note(_repeated(number[kept]), "more run", "of requeued jobs: counted as jobs of their own"),
        *_note(len(number) - len(once), "line", "of a job that is there already: left out"),
        *_state_notes(jobs["State"].combine_chunks().take(pa.array(kept))),
    )
    return Runs(kept, _rejected(reason[left], number[left]), notes)


def _column(jobs: pa.Table, name: str) -> Int64:
    return np.asarray(jobs[name])


def _reason(jobs: pa.Table, is_running: NDArray[np.bool_]) -> Int64:
    """Return for each line the index of the reason why it is no job that ran, RAN if there is none."""
    state = jobs["State"].combine_chunks()
    start_s, runtime_s, limit_s, nodes = (_column(jobs, name) for name in ("start_s", "runtime_s", "limit_s", "nodes"))
    nowhere = (_column(jobs, "processors") <= 0) | ((nodes <= 0) & (nodes > 0).any())
    waited = is_one_of(NEVER_STARTED, state) & (runtime_s <= 0) & ((start_s < 0) | nowhere)
    is_runaway = is_running & (limit_s > 0) & (runtime_s > limit_s + DAY_S)
    faults = [is_one_of(WAITING, state) | waited, start_s < 0, runtime_s < 0, nowhere, is_runaway]
    return np.select(faults, list(range(len(REASONS))), RAN)


def _once(number: Int64, start_s: Int64, runtime_s: Int64) -> Int64:
    """Return the indices of all lines but those of a run that another line has to a later end; in order."""
    if not _repeated(number):
        return np.arange(len(number))
    order = np.lexsort((runtime_s, start_s, number))
    another = np.diff(number[order], append=-1) | np.diff(start_s[order], append=-2)
    return np.sort(order[another != 0])


def _repeated(number: Int64) -> int:
    """Return how many of the numbers are there already."""
    in_order = np.sort(number)  # numpy's own `unique` is several times slower
    return int(np.count_nonzero(in_order[1:] == in_order[:-1]))


def _rejected(reason: Int64, number: Int64) -> tuple[Rejected, ...]:
    found = [(text, number[reason == index]) for index, text in enumerate(REASONS)]
    return tuple(Rejected(text, tuple(np.unique(ids).tolist())) for text, ids in found if len(ids))


def _note(count: int, noun: str, what: str) -> tuple[str, ...]:
    return (f"{counted(count, noun)} {what}",) if count else ()


def _state_notes(state: pa.DictionaryArray) -> tuple[str, ...]:
    jobs = np.bincount(np.asarray(state.indices), minlength=len(state.dictionary)).tolist()
    strange = {word: count for word, count in zip(words_of(state), jobs, strict=True) if count and word not in KNOWN}
    what = f"in an unknown state ({', '.join(sorted(strange))}): counted as having run"
    return _note(sum(strange.values()), "job", what)

"""Which lines of Slurm's accounting are jobs that ran, each counted once, why the others are not, and the requests.

sacct shows a job's processors, memory and GPUs over all of its nodes, and neither tasks nor the memory of a node. This
module derives the terms of the request from these totals, as squeue shows them; offpeak.plugin.slurm parses the terms.
Each node of a job is taken for an equal part of it. A job that was given more nodes than it requested has set tasks
only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S
from offpeak.model.jobs import RejectedJobs
from offpeak.model.request import Request
from offpeak.plugin.slurm.requests import RequestTerms, Tres, parse_request, parse_tres, requested_tres
from offpeak.sim_backend.traces.records import ColumnStore, note_on, rejected_jobs

WAITING = frozenset(("PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"))
NEVER_STARTED = WAITING | {"CANCELLED", "DEADLINE", "REQUEUED", "REVOKED"}
"""Jobs that end like this may have waited until then."""

RUNNING = frozenset(
    ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED")
)
ENDED = frozenset(
    (
        *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED"),
        *("DEADLINE", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"),
    )
)
KNOWN = WAITING | NEVER_STARTED | RUNNING | ENDED

REASONS = (
    "never started",
    "start unknown",
    "run time unknown",
    "no processors or nodes",
    "running for more than a day beyond their limit: `sacctmgr show runawayjobs` lists such jobs and can end them",
)
NEVER = 0
RAN = -1
CLOCK_S = 1
FEW = 3
"""So many lines may contradict each other in any accounting."""

REQUEST_COLUMNS = ("ReqTRES", "AllocTRES", "QOS", "Reservation", "Constraints")
"""The columns of requests, in addition to the partition and the allocation."""

WHOLE_NODES = 2
"""A job that was given more than so many times the processors that it requested has its nodes alone: a scheduler that
gives out whole cores gives at most two threads for one."""


@dataclass(frozen=True)
class SlurmRuns:
    """The indices of the lines of jobs that ran, those of them that were suspended, and the state of the others."""

    kept: Int64
    suspended: Int64
    rejected: tuple[RejectedJobs, ...]
    notes: tuple[str, ...]


def runs_of(jobs: ColumnStore, number: Int64, states: tuple[bytes, ...]) -> SlurmRuns:
    """Sort out the lines of jobs (see `jobs.job_lines`), whose numbers these are; `states` by code.

    Lines of one number and start are one run; the one that lasted longest counts.
    """

    def whole(name: str) -> str:
        """Return the state that `sacct` without -P has cut to a column of ten letters, or the name as it is."""
        begins = [known for known in KNOWN if known.startswith(name[:-1])] if name.endswith("+") else []
        return begins[0] if len(begins) == 1 else name

    names = tuple(whole(text.decode(errors="replace").partition(" ")[0]) for text in states)
    is_running = is_one_of(RUNNING, jobs.get("State"), names) & (jobs.get("end_s") < 0)
    reason = _reason(jobs, is_running, names)
    once = _once(number, jobs)
    kept = once[reason[once] == RAN]
    left = once[reason[once] != RAN]
    repeated = len(number) - len(once)
    del once
    # What still waits in one dump may have run in the next.
    left = left[(reason[left] != NEVER) | ~np.isin(number[left], number[kept])]
    # Elapsed is the time from start to end without that of suspension.
    end_s, held_s = jobs.get("end_s"), jobs.get("end_s") - jobs.get("start_s")
    is_suspended = is_one_of(frozenset(("SUSPENDED",)), jobs.get("State"), names)
    suspended = kept[(is_suspended | ((end_s >= 0) & (held_s > jobs.get("runtime_s") + CLOCK_S)))[kept]]
    of_state = np.bincount(jobs.get("State")[kept], minlength=len(names)).tolist()
    strange = {name: count for name, count in zip(names, of_state, strict=True) if count and name not in KNOWN}
    strange_text = f"in an unknown state ({', '.join(sorted(strange))}): counted as having run"
    notes = (
        *note_on(int(np.count_nonzero(is_running[kept])), "still running: counted with the run time so far"),
        *note_on(_repeated(number[kept]), "of requeued jobs: counted as jobs of their own", "more run"),
        *note_on(repeated, "of a job that is there already: left out", "line"),
        *note_on(len(suspended), "suspended for a time: not counted for the nodes in use at once"),
        *note_on(sum(strange.values()), strange_text),
    )
    reason, number = reason[left], number[left]
    rejected = (rejected_jobs(text, np.unique(number[reason == index])) for index, text in enumerate(REASONS))
    return SlurmRuns(kept, suspended, tuple(each for jobs in rejected for each in jobs), notes)


def count_of_other_clusters(number: Int64, jobs: ColumnStore) -> int:
    """Return how many lines of a repeated number cannot be runs of one job; 0 if the numbers may only have begun anew.

    They are of another user, or most of them begin before the run before them has ended. Slurm numbers the jobs of a
    cluster one after another: after a new installation all lines of repeated numbers come later than those before it.
    """
    start_s = jobs.get("start_s")
    order = np.lexsort((start_s, number))
    columns = (number, start_s, jobs.get("runtime_s"), jobs.get("User"), jobs.get("queued_s"))
    number, start_s, runtime_s, user, queued_s = (column[order] for column in columns)
    again = np.flatnonzero((number[1:] == number[:-1]) & (start_s[1:] > start_s[:-1]) & (start_s[:-1] >= 0)) + 1
    others = again[user[again] != user[again - 1]]
    if len(others) and queued_s[others - 1].max() > queued_s[others].min():
        return len(others)
    at_once = np.count_nonzero(start_s[again] + CLOCK_S < (start_s + runtime_s)[again - 1])
    return int(at_once) if at_once > max(FEW, len(again) / 2) else 0


def is_one_of(among: frozenset[str], code: Int64, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for each job, by the code of its state, whether the state is one of these."""
    return np.array([name in among for name in names], np.bool_)[code]


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


class SlurmRow(NamedTuple):
    """The request and the allocation of a job in a line, as text of sacct."""

    texts: Mapping[str, bytes]
    partition: str
    nodes: int
    cpus: int

    def text(self, name: str) -> str:
        """Return a text, "" if the dump has no such column."""
        return self.texts.get(name, b"").decode(errors="replace").strip()


def request_of(row: SlurmRow) -> Request | None:
    """Return the request; None if the line does not tell it. A constraint that makes no sense is left out.

    Slurm leaves ReqTRES empty for some jobs that end at once: what such a job was given counts as its request.
    """
    given = parse_tres(row.text("AllocTRES")) or Tres()
    column = "ReqTRES" if row.text("ReqTRES") else "AllocTRES"
    requested = parse_tres(row.text(column))
    if requested is None or not requested.cpus or row.nodes <= 0:
        return None
    terms = _terms(row, requested, given, requested_tres(row.text(column)))
    request, problem = parse_request(terms)
    return parse_request(terms._replace(features=""))[0] if problem else request


def _terms(row: SlurmRow, requested: Tres, given: Tres, tres: str) -> RequestTerms:
    cpus = row.cpus or given.cpus or requested.cpus
    whole_nodes = cpus > WHOLE_NODES * requested.cpus
    cores = requested.cpus if whole_nodes else max(cpus, requested.cpus)
    # A job that requests only tasks may spread over more nodes than it requests.
    apart = row.nodes <= max(requested.nodes, 1) or whole_nodes or requested.gpus > 0
    # Where Slurm does not manage memory, a job that requests none is listed with all memory of its nodes.
    memory_mib = 0 if given.cpus and not given.memory_mib else requested.memory_mib
    if requested.gpus and not requested.gpu_type:
        # The model has no requests of several types of GPUs: any GPUs are taken.
        others = [entry for entry in tres.split(",") if not entry.startswith("gres/gpu")]
        tres = ",".join([*others, f"gres/gpu={requested.gpus}"])
    return RequestTerms(
        partitions=row.partition,
        nodes=row.nodes if apart else max(requested.nodes, 1),
        tasks=row.nodes if apart else cores,
        cpus=cores,
        min_cpus=1,
        memory_mib=-(-memory_mib // (row.nodes if apart else cores)),
        memory_per_cpu=not apart,
        features=row.text("Constraints"),
        reservation=row.text("Reservation"),
        qos=row.text("QOS"),
        hosts="",
        excluded="",
        licences="",
        whole_nodes=whole_nodes,
        per_job=tres,
        per_node="",
        per_socket="",
        per_task="",
    )

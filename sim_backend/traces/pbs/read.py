"""Reads accounting logs of Torque and OpenPBS (server_priv/accounting) as a job log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Int64
from offpeak.model.jobs import Trace
from offpeak.model.request import Request
from offpeak.model.zones import zone_text
from offpeak.plugin.pbs import openpbs, torque
from offpeak.sim_backend.traces.pbs.log import OVER, QUEUED, RERUN, STARTED, PbsLog, read_log
from offpeak.sim_backend.traces.records import (
    CodedNames,
    ColumnStore,
    Records,
    rejected_jobs,
    request_classes,
    trace_of,
)

TASK = re.compile(r"(\d{1,18})\[\d+\]")

RECORD = re.compile(rb"^[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];[^;\n]*;", re.MULTILINE)
EXPECTED = "the server writes one file a day: server_priv/accounting/YYYYMMDD"

LEFT_OVER = {
    "still running at the end of the log": STARTED,
    "put back in the queue and not started again": RERUN,
    "never started": QUEUED,
}


def looks_like_pbs(head: bytes) -> bool:
    """Tell whether a file that begins so is an accounting log: one of these lines is a record of it."""
    return RECORD.search(head) is not None


def pbs_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that `text`, the files of its days one after the other, is; `name` is where it comes from.

    A run takes the time from start to end, for which its nodes were held: the wall time that Torque counts may be
    shorter. The group is the account, if the job had one. A malformed line raises BadTrace with its number; `lenient`
    skips and counts such lines instead. A last line without its end is left out, as the server may be writing it.
    """
    log = read_log(text, name, lenient=lenient, zone=zone)
    if not len(log.news):
        fault = f"no record can be read, {log.malformed:,} lines are malformed" if log.malformed else "has no records"
        raise BadTrace(f"{name}: {fault if text.head(1) else 'is empty'}", hint=EXPECTED)
    left, unended = left_over(log)
    runs = usable_runs(log)
    unusable = runs.unusable | left
    numbers, names = log.ids.numbered(np.concatenate([runs.jobs, *unusable.values()]))
    numbers, *others = np.split(numbers, np.cumsum([len(runs.jobs), *map(len, unusable.values())])[:-1])
    releasing = len(log.releasing)
    notes = {
        f"runs of a job that had run before: {runs.again:,}, each counts as a job of its own": runs.again,
        f"starts of a job that went back to the queue: {unended:,}, left out": unended,
        f"end records that stand twice: {runs.repeated:,}, the later one counts": runs.repeated,
        f"jobs that released nodes before their end: {releasing:,}; these nodes count as jobs of their own till then": (
            releasing
        ),
        "the last line is cut off and left out": log.is_cut,
    }
    return trace_of(
        name,
        records_of(log, runs, numbers, names),
        time_zone=zone_text(zone),
        rejected=tuple(jobs for pair in zip(unusable, others, strict=True) for jobs in rejected_jobs(*pair)),
        skipped_lines=log.malformed,
        notes=tuple(note for note, needed in notes.items() if needed),
    )


@dataclass(frozen=True)
class PbsRuns:
    """The rows of the runs that can be replayed and their jobs, and the jobs of the other runs, by reason.

    `repeated` counts repeated E records, `again` the runs of jobs that had run before.
    """

    rows: Int64
    jobs: Int64
    unusable: dict[str, Int64]
    repeated: int
    again: int


def left_over(log: PbsLog) -> tuple[dict[str, Int64], int]:
    """Return the jobs whose last news is not an end, by reason and in the order of the log, and how many starts were of
    jobs that went back to the queue; `log.news` is given up.
    """
    news = log.news.pop("news")
    # The lines of a job are adjacent; QUEUED says nothing about a job that has started.
    key = 2 * _jobs(log, log.news) + (news != QUEUED)
    order = np.argsort(key, kind="stable")
    key.sort()
    key //= 2
    news = news[order]
    begins_job = np.append(True, key[1:] != key[:-1])
    went_back = ~begins_job[1:] & (news[:-1] == STARTED) & (news[1:] != OVER)
    begin = np.flatnonzero(begins_job)
    job = key[begin]
    del key
    last = news[np.append(begin[1:], len(news)) - 1]
    first_row = np.minimum.reduceat(order, begin)
    del order
    jobs = {}
    for reason, state in LEFT_OVER.items():
        at = np.flatnonzero(last == state)
        jobs[reason] = job[at[np.argsort(first_row[at])]]
    return jobs, int(np.count_nonzero(went_back))


def usable_runs(log: PbsLog) -> PbsRuns:
    """Select the runs; of several records of one job and start the last one counts, at the position of the first."""
    if not len(log.runs):
        none = np.empty(0, np.int64)
        return PbsRuns(none, none, {}, 0, 0)
    job = _jobs(log, log.runs)
    start_s = log.runs.get("start_s")
    order = np.lexsort((start_s, job))
    begins_job = np.append(True, np.diff(job[order]) != 0)
    begins_run = begins_job | np.append(True, np.diff(start_s[order]) != 0)
    del start_s
    begin = np.flatnonzero(begins_run)
    rows = np.maximum.reduceat(order, begin)[np.argsort(np.minimum.reduceat(order, begin))]
    repeated = len(order) - len(rows)
    del order, begin
    is_timed = log.runs.get("runtime_s")[rows] >= 0
    is_placed = log.runs.get("processors")[rows] > 0
    usable = rows[is_timed & is_placed]
    return PbsRuns(
        rows=usable,
        jobs=job[usable],
        unusable={"run time unknown": job[rows[~is_timed]], "no processors": job[rows[is_timed & ~is_placed]]},
        repeated=repeated,
        again=len(rows) - int(np.count_nonzero(begins_job)),
    )


def records_of(log: PbsLog, runs: PbsRuns, numbers: Int64, names: Mapping[int, str]) -> Records:
    """Return these runs as columns; `numbers` are theirs, `names` by number. `log.runs` is given up."""
    rows = runs.rows
    # A job that has run before queues from the end of that run on.
    order = np.argsort(runs.jobs, kind="stable")
    again = np.flatnonzero(np.diff(runs.jobs[order]) == 0)
    before, after = order[again], order[again + 1]
    del order
    over_s = np.zeros(len(rows), np.int64)
    if len(again):
        over_s[after] = log.runs.get("start_s")[rows[before]] + log.runs.get("runtime_s")[rows[before]]

    def column(name: str) -> Int64:
        return log.runs.pop(name)[rows]

    def coded(name: str) -> CodedNames:
        return log.codes.pop(name).renumbered(column(name))

    start_s = column("start_s")
    # Clocks that are set back can make a job start before it was queued.
    queued_s = np.minimum(np.maximum(column("queued_s"), over_s), start_s)
    del over_s
    queue = coded("queue")
    request, requests = _requests(coded("requested"), queue)
    energy_j = column("energy_j")
    return Records(
        job_id=numbers,
        queued_s=queued_s,
        start_s=start_s,
        runtime_s=column("runtime_s"),
        estimate_s=column("requested_s"),
        nodes=column("nodes"),
        processors=column("processors"),
        user=coded("user"),
        group=coded("group"),
        queue=queue,
        application=coded("application"),
        energy_j=np.where(energy_j > 0, energy_j, np.nan) if energy_j.any() else None,
        job_names=names,
        request=request,
        requests=requests,
        array=_arrays(numbers, names),
    )


def _requests(requested: CodedNames, queue: CodedNames) -> tuple[Int64 | None, tuple[Request, ...]]:
    """Return the class of each run, -1 where the record does not tell what was requested."""

    def of_row(row: tuple[int, ...]) -> Request | None:
        code, number = row
        if code < 0:
            return None
        resources = dict(part.partition("=")[::2] for part in requested.names[code].split(" "))
        record = {"queue": queue.names[number]} if number >= 0 and queue.names[number] else {}
        # OpenPBS writes `select` for each job, Torque for none.
        if "select" in resources:
            return openpbs.request_of({**record, "Resource_List": resources})
        return torque.request_of(record, resources, {})

    request, requests = request_classes((requested.code, queue.code), of_row)
    return (request, requests) if requests else (None, ())


def _arrays(numbers: Int64, names: Mapping[int, str]) -> Int64 | None:
    """Return the number of the array of which each run is a task, such as 3 of 3[12], -1 for none."""
    tasks = {number: match[1] for number, name in names.items() if (match := TASK.match(name))}
    if not tasks:
        return None
    known = np.array(sorted(tasks), np.int64)
    array_of = np.array([int(tasks[number]) for number in known.tolist()], np.int64)
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[place] == numbers, array_of[place], -1)


def _jobs(log: PbsLog, store: ColumnStore) -> Int64:
    """Return the job of each row; the columns with the ids are released."""
    return log.ids.keys(store.pop("number"), store.pop("rest"))

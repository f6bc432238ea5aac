"""Reads accounting logs of Torque and OpenPBS (server_priv/accounting) as a job log."""

import re
from dataclasses import dataclass
from datetime import tzinfo
from itertools import chain, islice

from offpeak.errors import BadTrace
from offpeak.jobs import Rejected, Trace
from offpeak.long_text import LongText
from offpeak.zones import zone_text
from sim_backend.traces.pbs.columns import records_of
from sim_backend.traces.pbs.job_ids import numbered
from sim_backend.traces.pbs.log import QUEUED, RERUN, STARTED, Log, read_log
from sim_backend.traces.pbs.run import Run
from sim_backend.traces.records import trace_of

RECORD = re.compile(rb"^[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];[^;\n]*;", re.MULTILINE)
EXPECTED = "the server writes one file a day: server_priv/accounting/YYYYMMDD"
LEFT_OVER = {
    "still running at the end of the log": STARTED,
    "put back in the queue and not started again": RERUN,
    "never started": QUEUED,
}


@dataclass(frozen=True)
class _Sorted:
    """The runs that can be replayed, and the ids of the jobs that cannot, by reason."""

    runs: list[Run]
    unusable: dict[str, list[bytes]]


def looks_like_pbs(head: bytes) -> bool:
    """Say whether a file that begins so is an accounting log: one of these lines is a record of it."""
    return RECORD.search(head) is not None


def pbs_trace(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> Trace:
    """Return the log that `text`, the files of its days one after the other, is; `name` is where it comes from.

    A run takes the time from start to end, for which its nodes were held: the wall time that Torque counts may be
    shorter. The group is the account, if the job had one. A malformed line raises BadTrace with its number; `lenient`
    skips and counts such lines instead. A last line without its end is left out, as the server may be writing it.
    """
    log = read_log(text, name, lenient=lenient)
    if not log.last:
        fault = f"no record can be read, {log.malformed:,} lines are malformed" if log.malformed else "has no records"
        raise BadTrace(f"{name}: {fault if text.head(1) else 'is empty'}", hint=EXPECTED)
    jobs = _sorted_out(log)
    numbers, names = numbered([*(run.job for run in jobs.runs), *chain.from_iterable(jobs.unusable.values())])
    number = iter(numbers)
    return trace_of(
        name,
        records_of(jobs.runs, list(islice(number, len(jobs.runs))), names),
        time_zone=zone_text(zone),
        rejected=tuple(
            Rejected(reason, tuple(islice(number, len(ids)))) for reason, ids in jobs.unusable.items() if ids
        ),
        skipped_lines=log.malformed,
        notes=_notes(log),
    )


def _sorted_out(log: Log) -> _Sorted:
    runs: list[Run] = []
    unusable: dict[str, list[bytes]] = {"run time unknown": [], "no processors": []}
    for run in log.runs.values():
        if run.runtime_s < 0:
            unusable["run time unknown"].append(run.job)
        elif not run.places.processors:
            unusable["no processors"].append(run.job)
        else:
            runs.append(run)
    for reason, news in LEFT_OVER.items():
        unusable[reason] = [job for job, last in log.last.items() if last == news]
    return _Sorted(runs, unusable)


def _notes(log: Log) -> tuple[str, ...]:
    again = len(log.runs) - len({job for job, _ in log.runs})
    notes = {
        f"runs of a job that had run before: {again:,}, each counts as a job of its own": again,
        f"starts of a job that went back to the queue: {log.unended:,}, left out": log.unended,
        f"end records that stand twice: {log.repeated:,}, the later one counts": log.repeated,
        "the last line is cut off and left out": log.is_cut,
    }
    return tuple(note for note, needed in notes.items() if needed)

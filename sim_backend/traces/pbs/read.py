"""Reads accounting logs of Torque and OpenPBS (server_priv/accounting) as a job log."""

import re
from datetime import tzinfo

import numpy as np

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.jobs import RejectedJobs, Trace
from offpeak.model.local_time import zone_text
from sim_backend.traces.pbs.columns import LeftOver, Runs, left_over, records_of, usable_runs
from sim_backend.traces.pbs.log import Log, read_log
from sim_backend.traces.records import trace_of

RECORD = re.compile(rb"^[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];[^;\n]*;", re.MULTILINE)
EXPECTED = "the server writes one file a day: server_priv/accounting/YYYYMMDD"


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
    if not len(log.news):
        fault = f"no record can be read, {log.malformed:,} lines are malformed" if log.malformed else "has no records"
        raise BadTrace(f"{name}: {fault if text.head(1) else 'is empty'}", hint=EXPECTED)
    left = left_over(log)
    runs = usable_runs(log)
    unusable = runs.unusable | left.jobs
    numbers, names = log.ids.numbered(np.concatenate([runs.jobs, *unusable.values()]))
    numbers, *others = np.split(numbers, np.cumsum([len(runs.jobs), *map(len, unusable.values())])[:-1])
    return trace_of(
        name,
        records_of(log, runs, numbers, names),
        time_zone=zone_text(zone),
        rejected=tuple(
            RejectedJobs(reason, tuple(ids.tolist())) for reason, ids in zip(unusable, others, strict=True) if len(ids)
        ),
        skipped_lines=log.malformed,
        notes=_notes(log, runs, left),
    )


def _notes(log: Log, runs: Runs, left: LeftOver) -> tuple[str, ...]:
    notes = {
        f"runs of a job that had run before: {runs.again:,}, each counts as a job of its own": runs.again,
        f"starts of a job that went back to the queue: {left.unended:,}, left out": left.unended,
        f"end records that stand twice: {runs.repeated:,}, the later one counts": runs.repeated,
        "the last line is cut off and left out": log.is_cut,
    }
    return tuple(note for note, needed in notes.items() if needed)

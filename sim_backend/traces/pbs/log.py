"""Reads the lines of an accounting log into columns: which runs ended, and what became of the other jobs."""

import numpy as np

from offpeak.errors import BadTrace
from offpeak.files import LongText
from sim_backend.traces.codes import Codes
from sim_backend.traces.column_store import ColumnStore
from sim_backend.traces.pbs.job_ids import JobIds
from sim_backend.traces.pbs.run import Run, Who, run_of

BLOCK_LINES = 1 << 13
MOMENT = len("MM/DD/YYYY HH:MM:SS")
UNSTARTED = frozenset((b"Q", b"D", b"A"))  # queued; deleted or aborted: a running job gets an E record besides
ENDED = b"E"
QUEUED, STARTED, RERUN, OVER = range(4)
NEWS = {b"S": STARTED, b"R": RERUN}
ARRAY = b"[]"  # 3[].head stands for all of 3[1].head, 3[2].head ... and runs nothing itself
RUN_COLUMNS = ("number", "rest", "queued_s", "start_s", "runtime_s", "asked_s", "energy_j", "nodes", "processors")


class Log:
    """What the lines said so far, in their order: `runs` has a row for each E record of a run, `news` for each line.

    A line's news of its job is QUEUED, STARTED, RERUN or OVER. `ids` tells the jobs by their columns number and rest,
    `codes` the names by their codes.
    """

    def __init__(self) -> None:
        self.runs = ColumnStore()
        self.news = ColumnStore()
        self.ids = JobIds()
        self.codes = {name: Codes(b"") for name in Who._fields}
        self.malformed = 0
        self.is_cut = False
        self._runs: list[tuple[int, ...]] = []
        self._news: list[tuple[int, int, int]] = []

    def add(self, job: bytes, news: int, run: Run | None = None) -> None:
        """Add what a line says of a job, with the run that it ends."""
        number, rest = self.ids.split(job)
        self._news.append((number, rest, news))
        if run:
            names = [self.codes[name].of_name(text) for name, text in zip(Who._fields, run.who, strict=True)]
            times = (run.queued_s, run.start_s, run.runtime_s, run.asked_s)
            self._runs.append((number, rest, *times, run.energy_j, *run.places, *names))
        if len(self._news) == BLOCK_LINES:
            self.flush()

    def flush(self) -> None:
        """Move what was added to the columns."""
        run_names = (*RUN_COLUMNS, *Who._fields)
        runs = np.array(self._runs, np.int64).reshape(-1, len(run_names)).T
        self.runs.append(dict(zip(run_names, runs, strict=True)))
        number, rest, news = np.array(self._news, np.int64).reshape(-1, 3).T
        self.news.append({"number": number, "rest": rest, "news": news.astype(np.int8)})
        self._runs.clear()
        self._news.clear()


def read_log(text: LongText, name: str, *, lenient: bool) -> Log:
    """Read all lines of `text`; a malformed one raises BadTrace, or is counted if `lenient`."""
    log = Log()
    for number, line in enumerate(text.lines(), 1):
        if not line.endswith(b"\n"):
            log.is_cut = True
            break
        try:
            _take(log, line)
        except ValueError as fault:
            if line.isspace():
                continue
            if not lenient:
                hint = "--lenient skips such lines and counts them"
                raise BadTrace(f"{name}:{number}: {fault}", hint=hint) from None
            log.malformed += 1
    log.flush()
    return log


def _take(log: Log, line: bytes) -> None:
    fields = line.split(b";", 3)
    if len(fields) != 4 or len(fields[0]) != MOMENT:
        raise ValueError("not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;JOB;...)")
    _, kind, job, attributes = fields
    if ARRAY in job:
        return
    if kind in UNSTARTED:
        log.add(job, QUEUED)
    elif kind == ENDED:
        run = run_of(job, attributes)
        log.add(job, OVER if run else QUEUED, run)
    elif kind in NEWS:
        log.add(job, NEWS[kind])

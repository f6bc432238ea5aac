"""Reads the lines of an accounting log: which runs ended, and what became of the other jobs."""

from dataclasses import dataclass, field

from offpeak.errors import BadTrace
from offpeak.long_text import LongText
from sim_backend.traces.pbs.run import Run, run_of

MOMENT = len("MM/DD/YYYY HH:MM:SS")
QUEUED, STARTED, ENDED, RERUN = b"Q", b"S", b"E", b"R"
UNSTARTED = frozenset((QUEUED, b"D", b"A"))  # deleted or aborted: a running job gets an E record besides
ARRAY = b"[]"  # 3[].head stands for all of 3[1].head, 3[2].head ... and runs nothing itself


@dataclass
class Log:
    """What the lines said so far: `runs` by job and start, the later record winning; `last` is each job's last news.

    `unended` counts the starts of jobs that went back to the queue, `repeated` the E records that stand twice.
    """

    runs: dict[tuple[bytes, int], Run] = field(default_factory=dict)
    last: dict[bytes, bytes] = field(default_factory=dict)
    unended: int = 0
    repeated: int = 0
    malformed: int = 0
    is_cut: bool = False


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
    return log


def _take(log: Log, line: bytes) -> None:
    fields = line.split(b";", 3)
    if len(fields) != 4 or len(fields[0]) != MOMENT:
        raise ValueError("not an accounting record (MM/DD/YYYY HH:MM:SS;TYPE;JOB;...)")
    _, kind, job, attributes = fields
    if ARRAY in job:
        return
    if kind in UNSTARTED:
        log.last.setdefault(job, QUEUED)
    elif kind == ENDED:
        _take_end(log, job, attributes)
    elif kind in (STARTED, RERUN):
        log.unended += log.last.get(job) == STARTED
        log.last[job] = kind


def _take_end(log: Log, job: bytes, attributes: bytes) -> None:
    run = run_of(job, attributes)
    if run is None:
        log.last.setdefault(job, QUEUED)
        return
    log.last[job] = ENDED
    log.repeated += (job, run.start_s) in log.runs
    log.runs[job, run.start_s] = run

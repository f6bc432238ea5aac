"""Reads the lines of an accounting log into columns: the runs that ended, and the state of the other jobs.

A run is read from its E record ("ended"). exec_host gives the nodes and the processors on them. Job ids such as 31.head
and 32[1].head are numbers while a log is read, and texts as the ids of its jobs.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from offpeak.errors import BadTrace
from offpeak.files import LongText
from offpeak.model.arrays import Int64
from offpeak.model.constants import DAY_S, HOUR_S, MINUTE_S
from offpeak.sim_backend.traces.records import Codes, ColumnStore

# Torque 4: n001/0+n001/1, Torque 6: n001/0-3,6+n002/0, OpenPBS: n001/0*4+n002/1*4 (chunk number, processors).
PLACE = re.compile(rb"([^/+]+)/([0-9]{1,9})(?:\*([0-9]{1,9})|((?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*))")
# Account and jobname are free text of users, so the times are searched after the last ctime.
WHO = re.compile(rb'user=(\S*) group=(\S*)(?: account=("[^"]*"|\S*))?(?: .*?)? jobname=(.*) queue=(\S*)')
TIMES = re.compile(
    rb"([0-9]{1,15}) qtime=([0-9]{1,15}) etime=([0-9]{1,15}) (?:.*? )??start=([0-9]{1,15}) .* end=([0-9]{1,15})(?:\s|$)"
)
TOTALS = re.compile(rb" total_execution_slots=([0-9]{1,9}) unique_node_count=([0-9]{1,9}) ")
EXEC_HOST = re.compile(rb" exec_host=(\S*)")
NODES = re.compile(rb" Resource_List\.nodect=([0-9]{1,9})")
PROCESSORS = re.compile(rb" Resource_List\.(?:ncpus|procs)=([0-9]{1,9})")
REQUESTED_TIME = re.compile(rb" Resource_List\.walltime=([0-9:]{1,15})")
USED_TIME = re.compile(rb" resources_used\.walltime=([0-9:]{1,15})")
REQUESTED = re.compile(
    rb" Resource_List\.((?:select|place|nodes|ncpus|procs|mem|pmem|ngpus|naccesspolicy|qos)=[^ \n]*)"
)
USED_ENERGY = re.compile(rb" resources_used\.energy_used=([0-9]{1,15})")
SECONDS_PER_PART = (1, MINUTE_S, HOUR_S, DAY_S)

LONGEST = 15  # digits of a number that an array of integers can hold
NUMBER = re.compile(rb"(?:0|[1-9][0-9]{0,8})(?![0-9])")  # so short that a key cannot overflow
UNNUMBERED = -1

BLOCK_LINES = 1 << 13
MOMENT = len("MM/DD/YYYY HH:MM:SS")
UNSTARTED = frozenset((b"Q", b"D", b"A"))  # queued; deleted or aborted: a running job gets an E record besides
ENDED = b"E"
RELEASED = b"c"  # OpenPBS: the job goes on with fewer nodes (pbs_release_nodes); its E record has those of its start
RELEASED_PART = b"%b-released%d%b"
"""The id of the nodes that job 1.head released while it had four: 1-released4.head."""
QUEUED, STARTED, RERUN, OVER = range(4)
NEWS = {b"S": STARTED, b"R": RERUN}
ARRAY = b"[]"  # 3[].head stands for all of 3[1].head, 3[2].head ... and runs nothing itself
RUN_COLUMNS = ("number", "rest", "queued_s", "start_s", "runtime_s", "requested_s", "energy_j", "nodes", "processors")


def read_log(text: LongText, name: str, *, lenient: bool, zone: tzinfo) -> "PbsLog":
    """Read all lines of `text`; a malformed one raises BadTrace, or is counted if `lenient`."""
    log = PbsLog(zone)
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


def _take(log: "PbsLog", line: bytes) -> None:
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
        releases = {_unix_s(at, log.zone): places for at, places in log.kept.get(job, {}).items()} if run else {}
        for part in split_run(run, releases, _unix_s(fields[0], log.zone)) if run and releases else [run]:
            if part and part.job != job:
                log.releasing.add(job)
            log.add(part.job if part else job, OVER if part else QUEUED, part)
    elif kind in NEWS:
        log.add(job, NEWS[kind])
    elif kind == RELEASED and (hosts := EXEC_HOST.search(b" " + attributes)):
        log.kept.setdefault(job, {})[fields[0]] = places_of(hosts[1])


class PbsLog:
    """What the lines said so far, in their order: `runs` has a row for each E record of a run, `news` for each line.

    A line's news of its job is QUEUED, STARTED, RERUN or OVER. `ids` tells the jobs by their columns number and rest,
    `codes` the names by their codes. `kept` has what jobs that released nodes kept, by the time of the release as it is
    written; `releasing` are those of them that ended.
    """

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self.runs = ColumnStore()
        self.news = ColumnStore()
        self.ids = JobIds()
        self.codes = {name: Codes(b"") for name in RUN_TEXTS}
        self.kept: dict[bytes, dict[bytes, JobPlacement]] = {}
        self.releasing: set[bytes] = set()
        self.malformed = 0
        self.is_cut = False
        self._runs: list[tuple[int, ...]] = []
        self._news: list[tuple[int, int, int]] = []

    def add(self, job: bytes, news: int, run: "PbsRun | None" = None) -> None:
        """Add a line's news of a job, with the run that it ends."""
        number, rest = self.ids.split(job)
        self._news.append((number, rest, news))
        if run:
            names = [
                self.codes[name].of_name(text) for name, text in zip(RUN_TEXTS, (*run.who, run.requested), strict=True)
            ]
            times = (run.queued_s, run.start_s, run.runtime_s, run.requested_s)
            self._runs.append((number, rest, *times, run.energy_j, *run.places, *names))
        if len(self._news) == BLOCK_LINES:
            self.flush()

    def flush(self) -> None:
        """Move the added rows to the columns."""
        run_names = (*RUN_COLUMNS, *RUN_TEXTS)
        runs = np.array(self._runs, np.int64).reshape(-1, len(run_names)).T
        self.runs.append(dict(zip(run_names, runs, strict=True)))
        number, rest, news = np.array(self._news, np.int64).reshape(-1, 3).T
        self.news.append({"number": number, "rest": rest, "news": news.astype(np.int8)})
        self._runs.clear()
        self._news.clear()


class JobPlacement(NamedTuple):
    """How much of the machine a job had."""

    nodes: int
    processors: int


class JobOwner(NamedTuple):
    """Names in the record, empty if missing; `group` is the account if there is one."""

    user: bytes = b""
    group: bytes = b""
    queue: bytes = b""
    application: bytes = b""


RUN_TEXTS = (*JobOwner._fields, "requested")
"""The texts of runs, each kept once: most repeat from run to run."""


class PbsRun(NamedTuple):
    """A run from start to end, in Unix seconds; `queued_s` is from when it could have started.

    `runtime_s` is -1 if it is unknown, `requested_s` 0 without a limit, `energy_j` 0 if nothing was measured:
    Torque's energy_used, which only Crays fill, from their resource utilization reports, in joules over all nodes.
    `requested` has the terms of Resource_List that select nodes, as `name=value`, separated by blanks.
    """

    job: bytes
    queued_s: int
    start_s: int
    runtime_s: int
    requested_s: int
    energy_j: int
    places: JobPlacement
    who: JobOwner
    requested: bytes = b""


def run_of(job: bytes, attributes: bytes) -> PbsRun | None:
    """Return the run of an E record, None if it never started.

    Raises ValueError with the fault if it cannot be read.
    """
    head, _, tail = attributes.rpartition(b" ctime=")
    times = TIMES.match(tail)
    if times is None:
        if b" start=" in tail:
            raise ValueError("an E record without one of its times (ctime, qtime, etime, start, end)")
        return None
    created_s, queued_s, eligible_s, start_s, end_s = map(int, times.groups())
    if not start_s:
        return None
    # A held job becomes eligible later than it is queued.
    queued_s = eligible_s or queued_s or created_s
    # How long the nodes were held; what the job itself used, if the clock was set back meanwhile.
    runtime_s = end_s - start_s
    if runtime_s < 0:
        used = USED_TIME.search(tail)
        runtime_s = _seconds(used[1]) if used else -1
    return PbsRun(
        job=job,
        queued_s=queued_s,
        start_s=start_s,
        runtime_s=runtime_s,
        requested_s=_seconds(_found(REQUESTED_TIME, tail)),
        energy_j=int(_found(USED_ENERGY, tail)),
        places=_places(tail),
        who=_who(head),
        requested=b" ".join(REQUESTED.findall(tail)),
    )


def _places(tail: bytes) -> JobPlacement:
    """Return the placement: Torque's own count, else exec_host, else the request."""
    if totals := TOTALS.search(tail):
        return _counted(totals[2], totals[1])
    if hosts := EXEC_HOST.search(tail):
        return places_of(hosts[1])
    nodes = int(_found(NODES, tail))
    return JobPlacement(nodes, int(_found(PROCESSORS, tail)) or nodes)


# What repeats from record to record is kept as one object, which saves memory in a long log.
@lru_cache(maxsize=1024)
def _counted(nodes: bytes, processors: bytes) -> JobPlacement:
    return JobPlacement(int(nodes), int(processors))


def _found(pattern: re.Pattern[bytes], tail: bytes) -> bytes:
    match = pattern.search(tail)
    return match[1] if match else b"0"


@lru_cache(maxsize=1024)
def _who(head: bytes) -> JobOwner:
    match = WHO.match(head)
    if match is None:
        return JobOwner()
    user, group, account, application, queue = match.groups()
    return JobOwner(user, (account or b"").strip(b'"') or group, queue, application)


@lru_cache(maxsize=1024)
def _seconds(text: bytes) -> int:
    """Read [[[days:]hours:]minutes:]seconds."""
    parts = text.split(b":")
    return sum(int(part or 0) * unit for part, unit in zip(reversed(parts), SECONDS_PER_PART, strict=False))


@lru_cache(maxsize=1024)
def places_of(exec_host: bytes) -> JobPlacement:
    """Count the hosts, each once, and the processors. Raises ValueError if it is written in no known way."""
    hosts = set()
    processors = 0
    for place in exec_host.split(b"+"):
        match = PLACE.fullmatch(place)
        if match is None:
            raise ValueError(f"exec_host cannot be read: {place[:40].decode(errors='replace')!r}")
        host, slot, chunk, more_slots = match.groups()
        hosts.add(host)
        if chunk:
            processors += int(chunk)
            continue
        for slots in (slot + more_slots).split(b","):
            first, _, last = slots.partition(b"-")
            processors += max(int(last or first) - int(first) + 1, 0)
    return JobPlacement(len(hosts), processors)


def split_run(run: PbsRun, kept: Mapping[int, JobPlacement], ended_s: int) -> list[PbsRun]:
    """Return the run with the nodes that it kept to its end, and one for the nodes of each release until then.

    `kept` is by the time of the release; the run's record was written at `ended_s`. A host of which the job released a
    part stays with the job.
    """
    before, parts = run.places, list[PbsRun]()
    for at_s, places in kept.items():
        runtime_s = run.runtime_s - (ended_s - at_s)
        nodes, processors = before.nodes - places.nodes, before.processors - places.processors
        if nodes <= 0 or processors <= 0 or not 0 <= runtime_s <= run.runtime_s:
            continue
        number, dot, server = run.job.partition(b".")
        part = run._replace(
            job=RELEASED_PART % (number, before.nodes, dot + server),
            runtime_s=runtime_s,
            energy_j=0,
            places=JobPlacement(nodes, processors),
            requested=b"",
        )
        parts.append(part)
        before = places
    return [run._replace(places=before, requested=b""), *parts] if parts else [run]


def _unix_s(written: bytes, zone: tzinfo) -> int:
    return int(datetime.strptime(written.decode(), "%m/%d/%Y %H:%M:%S").replace(tzinfo=zone).timestamp())


class JobIds:
    """Splits each id into its number, UNNUMBERED if it begins with none, and a code for the rest, as ".head"."""

    def __init__(self) -> None:
        self._rests: dict[bytes, int] = {}

    def split(self, job: bytes) -> tuple[int, int]:
        """Return the number of an id and the code of the rest."""
        match = NUMBER.match(job)
        number, rest = (int(match[0]), job[match.end() :]) if match else (UNNUMBERED, job)
        return number, self._rests.setdefault(rest, len(self._rests))

    def keys(self, number: Int64, rest: Int64) -> Int64:
        """Return one number for each id, once all have been split; `number` is overwritten."""
        number -= UNNUMBERED
        number *= len(self._rests)
        number += rest
        return number

    def numbered(self, keys: Int64) -> tuple[Int64, dict[int, str]]:
        """Return a number for each job and, by number, the ids that are not just that number.

        The first 31.head is 31. Members of arrays, later runs and jobs of the same number on another server get numbers
        that no job has. The server is left out of an id where it is the one that most jobs belong to.
        """
        texts = tuple(self._rests)
        number, rest = np.divmod(keys, max(len(texts), 1))
        number += UNNUMBERED
        split = [text.partition(b".") for text in texts]
        servers = [server for _, _, server in split]
        jobs: Counter[bytes] = Counter()
        count = np.bincount(rest, minlength=len(servers))
        first = np.full(len(servers), len(rest))
        first[rest[::-1]] = np.arange(len(rest) - 1, -1, -1)
        for code in np.argsort(first, kind="stable").tolist():
            jobs[servers[code]] += int(count[code])
        home = max(jobs, key=jobs.__getitem__, default=b"")
        is_home = np.array([server == home for _, _, server in split], bool)
        # The numbers of the ids that are a number on a server. With leading zeros, or long, the rest is all of the id.
        shorts = [short for short, _, _ in split]
        is_plain = np.array([not short for short in shorts], bool)
        padded = np.array([int(s) if s.isdigit() and len(s) <= LONGEST else UNNUMBERED for s in shorts], np.int64)
        own = np.where(number < 0, padded[rest], np.where(is_plain[rest], number, UNNUMBERED))
        is_first = np.zeros(len(own), bool)
        is_first[np.unique(own, return_index=True)[1]] = True
        is_first &= own >= 0
        unused = 1 + int(own.max(initial=UNNUMBERED))
        others = np.flatnonzero(~is_first)
        own[others] = unused + np.arange(len(others))
        names = {}
        for row in np.flatnonzero(~is_first | ~is_home[rest]).tolist():
            begin = b"%d" % number[row] if number[row] >= 0 else b""
            end = split[rest[row]][0] if is_home[rest[row]] else texts[rest[row]]
            names[int(own[row])] = (begin + end).decode(errors="replace")
        return own, names

"""One run of a job, as its E record ("ended") tells it."""

import re
from functools import lru_cache
from typing import NamedTuple

from sim_backend.traces.pbs.exec_host import Places, places_of

# Users can write what they like into account and jobname, so the times are looked for behind the last ctime.
WHO = re.compile(rb'user=(\S*) group=(\S*)(?: account=("[^"]*"|\S*))?(?: .*?)? jobname=(.*) queue=(\S*)')
TIMES = re.compile(
    rb"([0-9]{1,15}) qtime=([0-9]{1,15}) etime=([0-9]{1,15}) (?:.*? )??start=([0-9]{1,15}) .* end=([0-9]{1,15})(?:\s|$)"
)
TOTALS = re.compile(rb" total_execution_slots=([0-9]{1,9}) unique_node_count=([0-9]{1,9}) ")
EXEC_HOST = re.compile(rb" exec_host=(\S*)")
NODES = re.compile(rb" Resource_List\.nodect=([0-9]{1,9})")
PROCESSORS = re.compile(rb" Resource_List\.(?:ncpus|procs)=([0-9]{1,9})")
ASKED_TIME = re.compile(rb" Resource_List\.walltime=([0-9:]{1,15})")
USED_TIME = re.compile(rb" resources_used\.walltime=([0-9:]{1,15})")
USED_ENERGY = re.compile(rb" resources_used\.energy_used=([0-9]{1,15})")
SECONDS_PER_PART = (1, 60, 3_600, 86_400)


class Who(NamedTuple):
    """Names as they stand in the record, empty where there are none; `group` is the account where there is one."""

    user: bytes = b""
    group: bytes = b""
    queue: bytes = b""
    application: bytes = b""


class Run(NamedTuple):
    """A run from start to end, in Unix seconds; `queued_s` is from when it could have started.

    `runtime_s` is -1 where it is unknown, `asked_s` 0 without a limit, `energy_j` 0 where nothing was measured:
    Torque's energy_used, which only Crays fill, from their resource utilization reports, in joules over all nodes.
    """

    job: bytes
    queued_s: int
    start_s: int
    runtime_s: int
    asked_s: int
    energy_j: int
    places: Places
    who: Who


def run_of(job: bytes, attributes: bytes) -> Run | None:
    """Return the run of an E record, None if it never started; ValueError with the fault if it cannot be read."""
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
    runtime_s = _runtime_s(start_s, end_s, tail)
    asked_s = _seconds(_found(ASKED_TIME, tail))
    energy_j = int(_found(USED_ENERGY, tail))
    return Run(job, queued_s, start_s, runtime_s, asked_s, energy_j, _places(tail), _who(head))


def _runtime_s(start_s: int, end_s: int, tail: bytes) -> int:
    """Return how long the nodes were held; what the job itself used, if the clock was set back meanwhile."""
    if end_s >= start_s:
        return end_s - start_s
    used = USED_TIME.search(tail)
    return _seconds(used[1]) if used else -1


def _places(tail: bytes) -> Places:
    """Return where it ran: Torque's own count, else what exec_host says, else what was asked for."""
    if totals := TOTALS.search(tail):
        return _counted(totals[2], totals[1])
    if hosts := EXEC_HOST.search(tail):
        return places_of(hosts[1])
    nodes = int(_found(NODES, tail))
    return Places(nodes, int(_found(PROCESSORS, tail)) or nodes)


# What repeats from record to record is kept as one object, which saves memory in a long log.
@lru_cache(maxsize=1024)
def _counted(nodes: bytes, processors: bytes) -> Places:
    return Places(int(nodes), int(processors))


def _found(pattern: re.Pattern[bytes], tail: bytes) -> bytes:
    match = pattern.search(tail)
    return match[1] if match else b"0"


@lru_cache(maxsize=1024)
def _who(head: bytes) -> Who:
    match = WHO.match(head)
    if match is None:
        return Who()
    user, group, account, application, queue = match.groups()
    return Who(user, (account or b"").strip(b'"') or group, queue, application)


@lru_cache(maxsize=1024)
def _seconds(text: bytes) -> int:
    """Read [[[days:]hours:]minutes:]seconds."""
    parts = text.split(b":")
    return sum(int(part or 0) * unit for part, unit in zip(reversed(parts), SECONDS_PER_PART, strict=False))

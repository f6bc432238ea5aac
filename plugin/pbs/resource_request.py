"""Parses what a job requests: chunks, each so many times so many processors on nodes of a kind.

`qsub -L tasks=4:lprocs=2:place=node` of Torque 6 is shown in a job's req_information. Its fields are numbered by
request: task_count.0, lprocs.0 and so on, as src/lib/Libattr/req.cpp of Torque 6.1 writes them. Jobs of `-l nodes=`
have such fields too, made of it: their own request goes before.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from plugin.pbs.fields import as_int

CPU_RESOURCES = frozenset({"ppn", "ncpus"})
_PLAIN_VALUE = re.compile(r"[\w.-]+")
# They are numbers that a job consumes, not kinds of node.
CONSUMED_RESOURCES = frozenset(
    {"ncpus", "ppn", "mem", "vmem", "mpiprocs", "ompthreads", "gpus", "ngpus", "mics", "nmics"}
)


class Chunk(NamedTuple):
    """So many times so many processors, each on one node that has these features; of that name, where it is given."""

    times: int
    cpus: int
    features: tuple[str, ...] = ()
    host: str = ""


@lru_cache(maxsize=8192)
def chunks_of(request: str) -> tuple[Chunk, ...]:
    """Return the chunks of Torque's `2:ppn=4:fast+n004:ppn=2` or OpenPBS's `2:ncpus=4:mem=4gb:kind=fast+1`."""
    return tuple(_parse_chunk(part.split(":")) for part in request.split("+") if part)


def _parse_chunk(words: list[str]) -> Chunk:
    count, cpus, host, features = 1, 1, "", []
    if words[0].isdecimal():
        count = int(words[0])
    elif "=" not in words[0]:
        host = words[0]
    else:
        words = ["1", *words]
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if name in CPU_RESOURCES:
            cpus = int(value) if value.isdecimal() else 1
        elif name in ("host", "vnode"):
            host = value
        elif name not in CONSUMED_RESOURCES:
            features += _feature(name, sign, value)
    return Chunk(count, cpus, tuple(features), host)


def _feature(name: str, sign: str, value: str) -> list[str]:
    """Return what a node calls this kind: Torque's property, the name of what is True, or the value of a text."""
    if not sign:
        return [name]
    if value.lower() in ("true", "t", "y", "1"):
        return [name]
    return [value] if _PLAIN_VALUE.fullmatch(value) and not value.isdecimal() and value.lower() != "false" else []


def cpu_count(chunks: tuple[Chunk, ...]) -> int:
    """Return how many processors the chunks ask for."""
    return sum(chunk.times * chunk.cpus for chunk in chunks)


ALL_PROCESSORS = "all"
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


class TaskRequest(NamedTuple):
    """`request` is in the words of `chunks_of`. `apart`: each chunk gets its own node; `whole`: all of it."""

    request: str
    apart: bool
    whole: bool


def parse_tasks(told: Mapping[str, str]) -> TaskRequest | None:
    """Return what req_information asks for, None where it asks for nothing."""
    numbered: dict[str, dict[str, str]] = {}
    for name, value in told.items():
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(match[2], {})[match[1]] = value
    asked = [wants for _, wants in sorted(numbered.items(), key=lambda each: int(each[0])) if "task_count" in wants]
    if not asked:
        return None
    whole = any(map(_is_whole, asked))
    apart = whole or any("maxtpn" in wants for wants in asked)
    return TaskRequest("+".join(map(_task_chunk, asked)), apart, whole)


def _is_whole(wants: Mapping[str, str]) -> bool:
    return wants.get("lprocs") == ALL_PROCESSORS or "node" in wants or wants.get("single_job_access") == "true"


def _task_chunk(wants: Mapping[str, str]) -> str:
    """Return one request: its tasks, by as many as may be together where that is bounded."""
    tasks, cpus = as_int(wants["task_count"]) or 1, as_int(wants.get("lprocs")) or 1
    together = min(as_int(wants.get("maxtpn")) or 1, tasks)
    nodes = -(-tasks // together) * (as_int(wants.get("node")) or 1)
    return ":".join([str(nodes), f"ppn={cpus * together}", *_task_features(wants.get("features", ""))])


def _task_features(asked: str) -> list[str]:
    """Return the features that a node is to have; of alternatives the first, which is enough."""
    return [each for each in re.split(r"[&,:+\s]+", asked.partition("|")[0]) if each]


def fewest_nodes(asked: TaskRequest) -> int:
    """Return how many nodes it takes at least, whatever their size."""
    return sum(chunk.times for chunk in chunks_of(asked.request)) if asked.apart else 1

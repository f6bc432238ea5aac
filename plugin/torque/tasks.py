"""What a job asks for by `qsub -L tasks=4:lprocs=2:place=node`, as Torque 6 tells it in a job's req_information.

Its fields are numbered by request: task_count.0, lprocs.0 and so on, as src/lib/Libattr/req.cpp of Torque 6.1 writes
them. Jobs that ask with `-l nodes=` have such fields too, made of it: what they asked for themselves goes before.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from plugin.pbs.request import chunks_of
from plugin.pbs.words import number

ALL = "all"
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


class TaskRequest(NamedTuple):
    """`request` is in the words of plugin.pbs.request. `apart`: each chunk gets its own node; `whole`: all of it."""

    request: str
    apart: bool
    whole: bool


def tasks_of(told: Mapping[str, str]) -> TaskRequest | None:
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
    return TaskRequest("+".join(map(_chunk, asked)), apart, whole)


def _is_whole(wants: Mapping[str, str]) -> bool:
    return wants.get("lprocs") == ALL or "node" in wants or wants.get("single_job_access") == "true"


def _chunk(wants: Mapping[str, str]) -> str:
    """Return one request: its tasks, by as many as may be together where that is bounded."""
    tasks, cpus = number(wants["task_count"]) or 1, number(wants.get("lprocs")) or 1
    together = min(number(wants.get("maxtpn")) or 1, tasks)
    nodes = -(-tasks // together) * (number(wants.get("node")) or 1)
    return ":".join([str(nodes), f"ppn={cpus * together}", *_features(wants.get("features", ""))])


def _features(asked: str) -> list[str]:
    """Return the features that a node is to have; of alternatives the first, which is enough."""
    return [each for each in re.split(r"[&,:+\s]+", asked.partition("|")[0]) if each]


def fewest_nodes(asked: TaskRequest) -> int:
    """Return how many nodes it takes at least, whatever their size."""
    return sum(chunk.times for chunk in chunks_of(asked.request)) if asked.apart else 1

"""What a job asks for, in chunks: so many times so many processors on nodes of a kind."""

import re
from functools import lru_cache
from typing import NamedTuple

CPUS = frozenset({"ppn", "ncpus"})
_PLAIN = re.compile(r"[\w.-]+")
# They are numbers that a job consumes, not kinds of node.
CONSUMED = frozenset({"ncpus", "ppn", "mem", "vmem", "mpiprocs", "ompthreads", "gpus", "ngpus", "mics", "nmics"})


class Chunk(NamedTuple):
    """So many times so many processors, each on one node that has these features; of that name, where it is given."""

    times: int
    cpus: int
    features: tuple[str, ...] = ()
    host: str = ""


@lru_cache(maxsize=8192)
def chunks_of(request: str) -> tuple[Chunk, ...]:
    """Return the chunks of Torque's `2:ppn=4:fast+n004:ppn=2` or OpenPBS's `2:ncpus=4:mem=4gb:kind=fast+1`."""
    return tuple(_chunk(part.split(":")) for part in request.split("+") if part)


def _chunk(words: list[str]) -> Chunk:
    count, cpus, host, features = 1, 1, "", []
    if words[0].isdecimal():
        count = int(words[0])
    elif "=" not in words[0]:
        host = words[0]
    else:
        words = ["1", *words]
    for word in words[1:]:
        name, sign, value = word.partition("=")
        if name in CPUS:
            cpus = int(value) if value.isdecimal() else 1
        elif name in ("host", "vnode"):
            host = value
        elif name not in CONSUMED:
            features += _feature(name, sign, value)
    return Chunk(count, cpus, tuple(features), host)


def _feature(name: str, sign: str, value: str) -> list[str]:
    """Return what a node calls this kind: Torque's property, the name of what is True, or the value of a text."""
    if not sign:
        return [name]
    if value.lower() in ("true", "t", "y", "1"):
        return [name]
    return [value] if _PLAIN.fullmatch(value) and not value.isdecimal() and value.lower() != "false" else []


def cpu_count(chunks: tuple[Chunk, ...]) -> int:
    """Return how many processors the chunks ask for."""
    return sum(chunk.times * chunk.cpus for chunk in chunks)

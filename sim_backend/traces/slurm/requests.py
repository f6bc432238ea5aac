"""The requests of Slurm's jobs, from what sacct says they requested and were given: TRES, partition, QOS, constraints.

sacct shows a job's processors, memory and GPUs over all of its nodes, and neither tasks nor the memory of a node. Each
node of a job is taken for an equal part of it. A job that was given more nodes than it requested has set tasks only.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from offpeak.errors import BadInput
from offpeak.model.request import Alternatives, Chunk, Request, parse_features
from sim_backend.traces.slurm.values import COUNT, count

REQUEST_COLUMNS = ("ReqTRES", "AllocTRES", "QOS", "Reservation", "Constraints")
"""The columns of requests, in addition to the partition and the allocation."""

WHOLE_NODES = 2
"""A job that was given more than so many times the processors that it requested has its nodes alone: a scheduler that
gives out whole cores gives at most two threads for one."""

# Slurm counts memory in MiB.
_MIB_OF_UNIT = {b"": 1.0, b"K": 1 / 1024, b"M": 1.0, b"G": 1024.0, b"T": 1024.0**2, b"P": 1024.0**3}
_MEMORY = re.compile(rb"(\d+(?:\.\d+)?)([KMGTP]?)")


class Tres(NamedTuple):
    """Trackable resources of a job over all of its nodes; `gpu_type` is "" for GPUs of any type, or of several."""

    cpus: int = 0
    nodes: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpu_type: str = ""


@lru_cache(maxsize=65_536)
def parse_tres(text: bytes) -> Tres | None:
    """Return the resources of "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1"; None for other text."""
    pairs = dict(part.partition(b"=")[::2] for part in text.split(b",") if part)
    try:
        memory_mib = _memory_mib(pairs.get(b"mem", b"0"))
        numbers = {name: _number(value) for name, value in pairs.items() if name != b"mem"}
    except ValueError:
        return None
    typed = {name.partition(b":")[2]: number for name, number in numbers.items() if name.startswith(b"gres/gpu:")}
    return Tres(
        cpus=numbers.get(b"cpu", 0),
        nodes=numbers.get(b"node", 0),
        memory_mib=memory_mib,
        gpus=max(numbers.get(b"gres/gpu", 0), sum(typed.values())),
        gpu_type=next(iter(typed)).decode(errors="replace") if len(typed) == 1 else "",
    )


def _number(value: bytes) -> int:
    if not COUNT.fullmatch(value):
        raise ValueError
    return count(value)


def _memory_mib(value: bytes) -> int:
    match = _MEMORY.fullmatch(value)
    if match is None:
        raise ValueError
    return round(float(match[1]) * _MIB_OF_UNIT[match[2]])


class SlurmRow(NamedTuple):
    """The request and the allocation of a job in a line, as text of sacct."""

    texts: Mapping[str, bytes]
    partition: str
    nodes: int
    cpus: int


def request_of(row: SlurmRow) -> Request | None:
    """Return the request; None if the line does not tell it."""
    requested = parse_tres(row.texts.get("ReqTRES", b""))
    if requested is None or not requested.cpus or row.nodes <= 0:
        return None
    given = parse_tres(row.texts.get("AllocTRES", b"")) or Tres()
    cpus = row.cpus or given.cpus or requested.cpus
    whole_nodes = cpus > WHOLE_NODES * requested.cpus
    cores = requested.cpus if whole_nodes else max(cpus, requested.cpus)
    # A job that requests only tasks may spread over more nodes than it requests.
    apart = row.nodes <= max(requested.nodes, 1) or whole_nodes or requested.gpus > 0
    copies = row.nodes if apart else cores
    return Request(
        tuple(filter(None, row.partition.split(","))),
        (
            Chunk(
                copies,
                cores=-(-cores // copies),
                memory_mib=-(-requested.memory_mib // copies),
                gpus=-(-requested.gpus // copies),
                gpu_type=requested.gpu_type,
                features=_features(row.texts.get("Constraints", b"")),
            ),
        ),
        apart=apart,
        whole_nodes=whole_nodes,
        reservation=_text(row.texts.get("Reservation", b"")),
        qos=_text(row.texts.get("QOS", b"")),
    )


@lru_cache(maxsize=4096)
def _features(text: bytes) -> Alternatives:
    """Return the constraint; none for a text that is none: the job is then taken to fit every node."""
    try:
        return parse_features(_text(text))
    except BadInput:
        return ()


@lru_cache(maxsize=4096)
def _text(text: bytes) -> str:
    decoded = text.decode(errors="replace").strip()
    return "" if decoded in ("(null)", "None", "N/A", "Unknown") else decoded

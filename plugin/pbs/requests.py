"""The request of a PBS job as a sum of chunks: a number of chunks with processors on nodes of a kind.

`qsub -L tasks=4:lprocs=2:place=node` of Torque 6 is shown in a job's req_information. Its fields are numbered by
request: task_count.0, lprocs.0 and so on, as src/lib/Libattr/req.cpp of Torque 6.1 writes them. Jobs of `-l nodes=`
have such fields too, derived from that option: the option takes precedence.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from offpeak.model.request import Chunk, Request
from plugin.pbs.commands import as_int, memory_mib

CPU_RESOURCES = frozenset({"ppn", "ncpus"})
GPU_RESOURCES = frozenset({"gpus", "ngpus"})
# These terms are amounts that a job consumes or modes of its GPUs, not kinds of nodes.
_NO_KINDS = frozenset({"vmem", "mpiprocs", "ompthreads", "mics", "nmics"}) | {
    *("shared", "exclusive", "exclusive_thread", "exclusive_process", "default")
}
_PLAIN_VALUE = re.compile(r"[\w.-]+")
_AMOUNT = re.compile(r"\d+([kmgtp]?[bw])?", re.IGNORECASE)


@lru_cache(maxsize=8192)
def chunks_of(request: str) -> tuple[Chunk, ...]:
    """Return the chunks of Torque's `2:ppn=4:fast+n004:ppn=2` or OpenPBS's `2:ncpus=4:mem=4gb:kind=fast+1`."""
    return tuple(_parse_chunk(part.split(":")) for part in request.split("+") if part)


def _parse_chunk(terms: list[str]) -> Chunk:
    copies, cores, memory, gpus, host, features = 1, 1, 0, 0, "", []
    if terms[0].isdecimal():
        copies = int(terms[0])
    elif "=" not in terms[0]:
        host = terms[0]
    else:
        terms = ["1", *terms]
    for term in terms[1:]:
        name, sign, value = term.partition("=")
        if name in CPU_RESOURCES:
            cores = int(value) if value.isdecimal() else 1
        elif name in GPU_RESOURCES:
            gpus = int(value) if value.isdecimal() else 1
        elif name == "mem":
            memory = memory_mib(value)
        elif name in ("host", "vnode"):
            host = value
        elif name not in _NO_KINDS:
            features += _feature(name, sign, value)
    return Chunk(copies, cores, memory, gpus, features=(frozenset(features),) if features else (), host=host)


def _feature(name: str, sign: str, value: str) -> list[str]:
    """Return the node feature of a term: Torque's property, the name of a True value, or the value of a text."""
    if not sign:
        return [name]
    if value.lower() in ("true", "t", "y", "1"):
        return [name]
    is_text = _PLAIN_VALUE.fullmatch(value) and not _AMOUNT.fullmatch(value) and value.lower() != "false"
    return [value] if is_text else []


ALL_PROCESSORS = "all"
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


def parse_tasks(information: Mapping[str, str]) -> Request | None:
    """Return the request of a job's req_information, None if it has none."""
    numbered: dict[str, dict[str, str]] = {}
    for name, value in information.items():
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(match[2], {})[match[1]] = value
    requests = [
        fields for _, fields in sorted(numbered.items(), key=lambda item: int(item[0])) if "task_count" in fields
    ]
    if not requests:
        return None
    whole = any(map(_is_whole, requests))
    apart = whole or any("maxtpn" in fields for fields in requests)
    return Request((), tuple(map(_task_chunk, requests)), apart, whole)


def _is_whole(fields: Mapping[str, str]) -> bool:
    return fields.get("lprocs") == ALL_PROCESSORS or "node" in fields or fields.get("single_job_access") == "true"


def _task_chunk(fields: Mapping[str, str]) -> Chunk:
    """Return the chunk of one request: its tasks, in groups as large as maxtpn allows."""
    tasks, cpus = as_int(fields["task_count"]) or 1, as_int(fields.get("lprocs")) or 1
    together = min(as_int(fields.get("maxtpn")) or 1, tasks)
    copies = -(-tasks // together) * (as_int(fields.get("node")) or 1)
    features = frozenset(_task_features(fields.get("features", "")))
    return Chunk(
        copies,
        cpus * together,
        memory_mib(fields.get("memory")) * together,
        as_int(fields.get("gpus")) * together,
        features=(features,) if features else (),
    )


def _task_features(field: str) -> list[str]:
    """Return the features that a node needs; of alternatives the first."""
    return [feature for feature in re.split(r"[&,:+\s]+", field.partition("|")[0]) if feature]


def fewest_nodes(request: Request) -> int:
    """Return the smallest number of nodes for the request, whatever their size."""
    return sum(chunk.copies for chunk in request.chunks) if request.apart else 1


def with_memory(chunks: tuple[Chunk, ...], total_mib: int, per_processor_mib: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks with their shares of the job's memory, where they name none themselves."""
    if not (total_mib or per_processor_mib) or any(chunk.memory_mib for chunk in chunks):
        return chunks
    copies = sum(chunk.copies for chunk in chunks) or 1
    return tuple(
        chunk._replace(memory_mib=max(-(-total_mib // copies), per_processor_mib * chunk.cores)) for chunk in chunks
    )

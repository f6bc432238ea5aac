"""The request of a Slurm job, from the fields that squeue, its JSON, slurmrestd and sacct share, and the GRES of nodes.

A job with more tasks than nodes has a chunk for each task, unless a term counts per node; other jobs have one for each
node. GPUs are counted. Other generic resources are features of nodes: squeue reports too little to count them.
"""

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from offpeak.errors import BadInput
from offpeak.machines.node_sets import expand
from offpeak.model.request import Chunk, Request, parse_features
from offpeak.plugin.scheduler.job import MOST_COUNT, MOST_MEMORY_MIB
from offpeak.plugin.slurm.commands import NOTHING, count, memory_mib, parts, plain

GPU = "gpu"
_OTHER_TRES = frozenset({"cpu", "mem", "node", "billing", "energy", "vmem", "pages", "license", "fs", "bb", "ic"})
_NODE_DETAILS = re.compile(r"\([^)]*\)")
_AMOUNT = re.compile(r"\d+(?:\.\d+)?[KMGTP]?")
_LICENCE = "license/"
MOST_REQUESTS = 1 << 14
_NO_NODES = frozenset[str]()
"""One for all requests: a log may have as many as jobs, and each empty set takes as much memory as the rest of one."""

_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?(?=,|$)")
_THROTTLE = re.compile(r"%(\d+)")


class RequestTerms(NamedTuple):
    """The terms of a request as Slurm writes them; numbers are 0 where Slurm shows none.

    `min_cpus` is per node. `memory_mib` is per CPU if `memory_per_cpu`, else per node. The last four are TRES. Licences
    of sacct are in `per_job`.
    """

    partitions: str
    nodes: int
    tasks: int
    cpus: int
    min_cpus: int
    memory_mib: int
    memory_per_cpu: bool
    features: str
    reservation: str
    qos: str
    hosts: str
    excluded: str
    licences: str
    whole_nodes: bool
    per_job: str
    per_node: str
    per_socket: str
    per_task: str


@lru_cache(maxsize=MOST_REQUESTS)
def parse_request(terms: RequestTerms) -> tuple[Request | None, str]:
    """Return the request and "", or None and the reason why it is not understood."""
    try:
        return _request(terms), ""
    except BadInput as problem:
        return None, str(problem)


def _request(terms: RequestTerms) -> Request:
    nodes, tasks, cpus = (min(max(number, 1), MOST_COUNT) for number in (terms.nodes, terms.tasks, terms.cpus))
    by_node = [*_gres(terms.per_node), *_gres(terms.per_socket)]
    by_task, by_job = tuple(_gres(terms.per_task)), _totals(terms.per_job)
    memory_by_node = terms.memory_mib > 0 and not terms.memory_per_cpu
    counts_per_node = terms.whole_nodes or memory_by_node or by_node or terms.min_cpus > -(-cpus // tasks)
    copies = nodes if tasks <= nodes or counts_per_node else tasks
    apart = copies == nodes
    cores = min(max(-(-cpus // copies), terms.min_cpus if apart else 1), MOST_COUNT)
    gpus = sum(number for name, _, number in by_node if name == GPU)
    gpus += sum(-(-number * tasks // copies) for name, _, number in by_task if name == GPU)
    gpus += sum(-(-number // copies) for name, _, number in by_job if name == GPU)
    types = {kind for name, kind, _ in (*by_node, *by_task, *by_job) if name == GPU and kind}
    if len(types) > 1:
        raise BadInput(f"it requests GPUs of several types: {', '.join(sorted(types))}")
    others = frozenset(f"gres/{name}" for name, _, _ in (*by_node, *by_task, *by_job) if name != GPU)
    features = parse_features(plain(terms.features))
    if others:
        features = tuple(needed | others for needed in features or (frozenset(),))
    chunk = Chunk(
        copies,
        cores,
        memory_mib=min(terms.memory_mib * (cores if terms.memory_per_cpu else 1), MOST_MEMORY_MIB),
        gpus=min(gpus, MOST_COUNT),
        gpu_type=min(types, default=""),
        features=features,
    )
    return Request(
        partitions=tuple(map(sys.intern, parts(terms.partitions))),
        chunks=(chunk,),
        apart=apart,
        whole_nodes=terms.whole_nodes,
        hosts=_node_set(terms.hosts),
        excluded=_node_set(terms.excluded),
        reservation=plain(terms.reservation),
        qos=sys.intern(plain(terms.qos)),
        licences=_licences(terms.licences) or _licences(_licences_in(terms.per_job)),
    )


class Tres(NamedTuple):
    """The resources of a job over all of its nodes; `gpu_type` is "" for GPUs of any type, or of several."""

    cpus: int = 0
    nodes: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpu_type: str = ""


@lru_cache(maxsize=MOST_REQUESTS)
def parse_tres(text: str) -> Tres | None:
    """Return the resources of "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1"; None for other text."""
    pairs = dict(entry.partition("=")[::2] for entry in text.split(",") if entry)
    if not all(map(_AMOUNT.fullmatch, pairs.values())):
        return None
    gpus = [(kind, number) for name, kind, number in _totals(requested_tres(text)) if name == GPU]
    return Tres(
        cpus=count(pairs.get("cpu", "")),
        nodes=count(pairs.get("node", "")),
        memory_mib=memory_mib(pairs.get("mem", "")),
        gpus=sum(number for _, number in gpus),
        gpu_type=gpus[0][0] if len(gpus) == 1 else "",
    )


def forget_parsed() -> None:
    """Release the memory of requests that were parsed, which a log that has been read needs no more."""
    for parse in (parse_request, parse_tres, _totals):
        parse.cache_clear()


def requested_tres(text: str) -> str:
    """Return the entries of sacct's ReqTRES that are GRES and licences, as `RequestTerms.per_job` has them."""
    return ",".join(entry for entry in text.split(",") if entry.startswith(("gres/", _LICENCE)))


@lru_cache(maxsize=MOST_REQUESTS)
def _totals(text: str) -> tuple[tuple[str, str, int], ...]:
    """Return the generic resources of a whole job. Slurm adds the total of a resource to its types: it is left out."""
    found = list(_gres(text))
    typed = {name for name, kind, _ in found if kind}
    return tuple((name, kind, number) for name, kind, number in found if kind or name not in typed)


def _licences_in(tres: str) -> str:
    entries = (entry for entry in tres.split(",") if entry.startswith(_LICENCE))
    return ",".join(entry.removeprefix(_LICENCE).replace("=", ":") for entry in entries)


def _node_set(text: str) -> frozenset[str]:
    return _NO_NODES if text in NOTHING else frozenset(expand(text))


def _licences(text: str) -> tuple[tuple[str, int], ...]:
    """Return the licences; alternatives (`a|b`) are left out, as any of them will do."""
    if text in NOTHING or "|" in text:
        return ()
    named = (entry.partition(":") for entry in re.split("[,;]", text) if entry)
    return tuple(sorted((name, count(number) if number else 1) for name, _, number in named))


def _gres(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield name, type and count of each generic resource of `gres/gpu:a100=2,gres:nic:1,cpu=4`."""
    for entry in _NODE_DETAILS.sub("", text).split(",") if text not in NOTHING else ():
        is_gres = entry.startswith(("gres/", "gres:"))
        name, *rest = re.split("[:=]", entry[5:] if is_gres else entry)
        if not name or (not is_gres and name.partition("/")[0] in _OTHER_TRES):
            continue
        number = count(rest.pop()) if rest and rest[-1][:1].isdecimal() else 1
        yield name, ":".join(rest), number


@lru_cache(maxsize=1024)
def parse_node_gres(text: str) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """Return a node's GPUs by type, and its other generic resources as features."""
    gpus: dict[str, int] = {}
    others = set()
    for name, kind, number in _gres(text):
        if name == GPU:
            gpus[kind] = gpus.get(kind, 0) + number
        else:
            others.add(f"gres/{name}")
    return tuple(sorted(gpus.items())), tuple(sorted(others))


def is_per_cpu(least_mib: int, total: str, cpus: int) -> bool:
    """Whether a least memory counts per CPU: squeue's text marks it by nothing but the total in the job's TRES."""
    fields = dict(entry.partition("=")[::2] for entry in total.split(","))
    return least_mib > 0 and memory_mib(fields.get("mem", "")) == least_mib * cpus > least_mib * count(
        fields.get("node", "1")
    )


def count_tasks(tasks: str) -> int:
    """Return how many tasks `1-9:2,12%4` has; 1 for none. Only the visible part of a truncated list counts."""
    found = sum(
        1 + (int(last or first) - int(first)) // int(step or 1)
        for first, last, step in _TASKS.findall(tasks.partition("%")[0])
    )
    return max(found, 1)


def throttle(tasks: str) -> int:
    """Return how many tasks of `1-9%4` may run at once, 0 for any number."""
    match = _THROTTLE.search(tasks)
    return int(match[1]) if match else 0

"""Generates a mixed workload on a small cluster, in the shape of the logs of Marconi100 and UniLu Gaia.

Cores and run times of the partitions batch and whole are those of Gaia (UniLu-Gaia-2014-2 of the Parallel Workloads
Archive, J. Emeras), GPUs and run times of partition gpu those of Marconi100 (CINECA, CC BY 4.0, 1,994 jobs of 31
January to 1 February 2022): quantiles and counts of these logs stand below. The logs have no QOS, no memory per request
and no throttles: the shares of these are assumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from offpeak.model.arrays import Float64, Int64
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import Qos
from offpeak.model.request import Chunk, Request

JOBS, SEED, DAYS = 640, 27, 2.0
DAY_H = 24
HIGH, NORMAL = "high", "normal"
BATCH, WHOLE, GPU = "batch", "whole", "gpu"
GPU_MODEL = "v100"


class NodeGroup(NamedTuple):
    """Equal nodes in the same partitions; `idle_w` is the draw of an idle node [W]."""

    nodes: int
    node_type: NodeType
    partitions: frozenset[str]
    idle_w: float


GROUPS = (
    NodeGroup(8, NodeType(12, 48_000), frozenset((BATCH, WHOLE)), 100.0),
    NodeGroup(4, NodeType(16, 256_000), frozenset((BATCH, WHOLE)), 140.0),
    NodeGroup(6, NodeType(32, 240_000, ((GPU_MODEL, 4),)), frozenset((GPU,)), 300.0),
)
"""Gaia's nodes have 12 cores and 48 GB, some 16 and 256 GB; Marconi100's 32 cores, 256 GB and 4 V100."""

OFF_W = 5.0

SHARE = {BATCH: 0.57, WHOLE: 0.11, GPU: 0.32}
LOAD = {BATCH: 0.55, WHOLE: 0.35, GPU: 0.9}
"""Of the node hours of a partition's nodes: so much is requested in the time of the submissions."""

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
GAIA_RUN_S = (60, 94, 630, 689, 6612, 35_456, 259_213)
M100_RUN_S = (60, 200, 467, 1164, 2622, 5908, 74_801)
LEAST_RUN_H, MOST_RUN_H = 0.5, 12.0
"""Shorter jobs would last less than Slurm needs to start one on the compressed clock."""

M100_LIMIT = (1.05, 1.32, 1.58, 2.0, 2.47, 2.74, 10.0)
"""Time limit divided by run time, by the same quantiles."""

GAIA_CORES = {1: 18_783, 2: 717, 4: 2008, 6: 1297, 8: 775, 12: 24_631}
GAIA_NODES = {2: 341, 3: 407, 4: 1791}
"""Jobs with 24, 36 and 48 cores on nodes of 12."""
M100_GPUS = {1: 200, 2: 150, 4: 541, 8: 73, 12: 24, 16: 30}
"""Marconi100 gives whole nodes of 4 GPUs; jobs with 1 and 2 GPUs are assumed."""

MIB_PER_CORE = (500, 1000, 2000, 4000, 12_000)
MIB_PER_CORE_WEIGHT = (0.3, 0.3, 0.25, 0.1, 0.05)
CORES_PER_GPU, MIB_PER_GPU = 8, 48_000
ARRAY_SHARE, MOST_TASKS = 0.125, 8
HIGH_SHARE = 0.1
DAYTIME_H, DAYTIME_WEIGHT = (8, 20), 3.0
CLASS_W = 10.0
FULL_W = {BATCH: (180.0, 380.0), WHOLE: (180.0, 380.0), GPU: (700.0, 1700.0)}
"""The draw of a node that is full of such jobs [W]."""


@dataclass(frozen=True)
class MixedDay:
    """Jobs by submission, times in hours of the log from the first submission on.

    `array` is -1 for a job of no array; `throttle` is 0 where any number of tasks may run. `part_w` is the draw of the
    job on each of its nodes [W].
    """

    requests: tuple[Request, ...]
    submit_h: Float64
    run_h: Float64
    limit_h: Float64
    request: Int64
    part_w: Float64
    array: Int64
    throttle: Int64

    def __len__(self) -> int:
        return len(self.submit_h)

    def request_of(self, job: int) -> Request:
        """Return the request of a job."""
        return self.requests[int(self.request[job])]

    def parts(self) -> Int64:
        """Return the nodes on which each job draws `part_w`."""
        copies = np.array([sum(chunk.copies for chunk in each.chunks) for each in self.requests], dtype=np.int64)
        return copies[self.request]


def mixed_cluster() -> Cluster:
    """Return the cluster: two partitions over the same CPU nodes, one of whole nodes, and one of GPU nodes."""
    pools = []
    first = 1
    for group in GROUPS:
        names = frozenset(f"node{number}" for number in range(first, first + group.nodes))
        pools.append(Pool(group.node_type, group.partitions, group.nodes, names))
        first += group.nodes
    partitions = (Partition(BATCH, shared=True), Partition(WHOLE), Partition(GPU, shared=True))
    qos = {name: Qos(name) for name in (HIGH, NORMAL)}
    return Cluster(tuple(pools), {each.name: each for each in partitions}, qos=qos)


def mixed_day(jobs: int = JOBS, days: float = DAYS, seed: int = SEED) -> MixedDay:
    """Return the workload: `jobs` jobs, tasks of arrays included, submitted over so many days."""
    random = np.random.default_rng(seed)
    drawn: list[str] = random.choice(list(SHARE), jobs, p=list(SHARE.values())).tolist()
    array, throttle = _arrays(random, drawn)
    head = _heads(array)
    kinds = [drawn[first] for first in head]
    qos = np.where(random.random(jobs) < HIGH_SHARE, HIGH, NORMAL)[head]
    written = [_request(random, kind) for kind in kinds]
    requests = [written[first]._replace(qos=str(qos[first])) for first in head]
    numbers = {request: number for number, request in enumerate(dict.fromkeys(requests))}
    run_h = _run_h(random, kinds, requests, days)
    factor = np.interp(random.random(jobs), QUANTILES, M100_LIMIT)[head]
    low_w, high_w = np.array([FULL_W[kind] for kind in kinds]).T
    share = np.array([_share(request) for request in requests])
    full_w = (low_w + (high_w - low_w) * random.random(jobs))[head]
    return MixedDay(
        requests=tuple(numbers),
        submit_h=_submissions(random, jobs, days)[head],
        run_h=run_h,
        limit_h=run_h * factor,
        request=np.array([numbers[request] for request in requests], dtype=np.int64),
        part_w=np.maximum(CLASS_W, np.round(full_w * share / CLASS_W) * CLASS_W),
        array=array,
        throttle=throttle,
    )


def _arrays(random: np.random.Generator, kinds: Sequence[str]) -> tuple[Int64, Int64]:
    """Return the array of each job and its throttle; an array is a run of jobs of which the first is one of batch."""
    array = np.full(len(kinds), -1, dtype=np.int64)
    throttle = np.zeros(len(kinds), dtype=np.int64)
    wanted = round(len(kinds) * ARRAY_SHARE)
    number = 0
    for first in random.permutation(len(kinds) - MOST_TASKS):
        tasks = int(random.integers(4, MOST_TASKS + 1))
        if wanted <= 0 or kinds[first] != BATCH or (array[first : first + tasks] >= 0).any():
            continue
        array[first : first + tasks] = number
        throttle[first : first + tasks] = random.choice((0, 2, 4))
        number += 1
        wanted -= tasks
    return array, throttle


def _heads(array: Int64) -> Int64:
    """Return for each job the first job of its array, itself if it is in none."""
    first: dict[int, int] = {}
    return np.array([at if each < 0 else first.setdefault(int(each), at) for at, each in enumerate(array)])


def _request(random: np.random.Generator, kind: str) -> Request:
    if kind == WHOLE:
        return Request((WHOLE,), (Chunk(_drawn(random, GAIA_NODES)),), whole_nodes=True)
    if kind == GPU:
        gpus = _drawn(random, M100_GPUS)
        nodes = max(1, gpus // 4)
        per_node = min(gpus, 4)
        chunk = Chunk(nodes, CORES_PER_GPU * per_node, MIB_PER_GPU * per_node, per_node, GPU_MODEL)
        return Request((GPU,), (chunk,))
    cores = _drawn(random, GAIA_CORES)
    # A request for 12 cores has less memory per core, so that most of them fit the nodes with 12 cores.
    mib = int(random.choice(MIB_PER_CORE, p=MIB_PER_CORE_WEIGHT)) * cores
    return Request((BATCH,), (Chunk(1, cores, mib),))


def _drawn(random: np.random.Generator, counts: dict[int, int]) -> int:
    weights = np.array(list(counts.values()), dtype=np.float64)
    return int(random.choice(list(counts), p=weights / weights.sum()))


def _share(request: Request) -> float:
    """Return the share that a part of the request takes of a node of the first group that holds it."""
    chunk = request.chunks[0]
    nodes = (each.node_type for each in GROUPS if set(request.partitions) & each.partitions)
    return 1.0 if request.whole_nodes else next(node.share(chunk) for node in nodes if node.holds(chunk))


def _run_h(random: np.random.Generator, kinds: Sequence[str], requests: Sequence[Request], days: float) -> Float64:
    """Return run times whose load of each partition's nodes is LOAD."""
    level = random.random(len(requests))
    run_h = np.empty(len(requests))
    for kind in SHARE:
        own = np.flatnonzero(np.asarray(kinds) == kind)
        logged_s = np.log(M100_RUN_S if kind == GPU else GAIA_RUN_S)
        shape = np.exp(np.interp(level[own], QUANTILES, logged_s))
        nodes = np.array([requests[job].chunks[0].copies * _share(requests[job]) for job in own.tolist()])
        target = LOAD[kind] * days * DAY_H * sum(group.nodes for group in GROUPS if kind in group.partitions)
        run_h[own] = _scaled(shape, nodes, target)
    return run_h


def _scaled(shape: Float64, nodes: Float64, target_node_h: float) -> Float64:
    """Return the run times [h], clipped, of which the node hours add up to the target as nearly as clipping allows."""
    low, high = 1e-9, 1.0
    run_h = shape
    for _ in range(60):
        factor = (low * high) ** 0.5
        run_h = np.clip(shape * factor, LEAST_RUN_H, MOST_RUN_H)
        low, high = (factor, high) if (run_h * nodes).sum() < target_node_h else (low, factor)
    return run_h


def _submissions(random: np.random.Generator, jobs: int, days: float) -> Float64:
    """Return the hours of the submissions, more of them by day than by night."""
    hours = np.arange(round(days * DAY_H))
    first, last = DAYTIME_H
    is_day = (hours % DAY_H >= first) & (hours % DAY_H < last)
    weight = np.where(is_day, DAYTIME_WEIGHT, 1.0)
    ends = np.cumsum(weight) / weight.sum()
    at_h = np.interp(np.sort(random.random(jobs)), np.concatenate([[0.0], ends]), np.append(hours, len(hours)))
    since_first_h: Float64 = at_h - at_h[0]
    return since_first_h

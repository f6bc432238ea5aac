"""`offpeak estimate` on logs of 20,000 nodes in 40 types: time and memory, with few and with all requests distinct."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bars import Measured
from benchmarks.command import run_cold
from benchmarks.engine_mixed import cluster_of, jobs_for
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster
from offpeak.model.cluster_file import cluster_text
from offpeak.model.request import Request
from offpeak.sim_backend.engine.case import RequestedJobs

NODES, TYPES, PARTITIONS = 20_000, 40, 30
BEGIN_S = 1_600_000_000
USERS, ACCOUNTS, SEED = 200, 20, 7
MEAN_WAIT_S = 300
COLUMNS = (
    "JobIDRaw;JobID;User;Account;Partition;QOS;State;Submit;Eligible;Start;End;ElapsedRaw;TimelimitRaw;"
    "AllocNodes;AllocCPUS;ReqTRES;AllocTRES"
)


def write_wide_log(folder: Path, jobs: int, *, is_each_distinct: bool) -> tuple[Path, Path]:
    """Write a log of sacct and the file of its cluster, and return both.

    `is_each_distinct`: each job requests another amount of memory than all others in its partition.
    """
    cluster = cluster_of(NODES, TYPES, PARTITIONS)
    requests, some = jobs_for(cluster, jobs)
    file, log = folder / "cluster.toml", folder / "sacct.txt"
    file.write_text(cluster_text(cluster))
    random = np.random.default_rng(SEED)
    start_s = some.submit_s + random.exponential(MEAN_WAIT_S, jobs).astype(np.int64)
    memory_mib = _distinct_memory_mib(cluster, requests, some.request) if is_each_distinct else None
    user = random.zipf(1.6, jobs) % USERS
    submit, start, end = (
        np.datetime_as_string((BEGIN_S + at_s).astype("datetime64[s]")).tolist()
        for at_s in (some.submit_s, start_s, start_s + some.runtime_s)
    )
    with log.open("w") as lines:
        lines.write(COLUMNS + "\n")
        for job, number in enumerate(some.request.tolist()):
            request = requests[number]
            tres, nodes, cpus = _tres(request, None if memory_mib is None else int(memory_mib[job]))
            times = f"{submit[job]};{submit[job]};{start[job]};{end[job]};{some.runtime_s[job]}"
            owner = f"user{user[job]};account{user[job] % ACCOUNTS};{request.partitions[0]};normal;COMPLETED"
            limit_min = -(-int(some.estimate_s[job]) // 60)
            lines.write(f"{_ids(some, job)};{owner};{times};{limit_min};{nodes};{cpus};{tres};{tres}\n")
    return log, file


def _ids(jobs: RequestedJobs, job: int) -> str:
    assert jobs.array is not None
    return f"{job + 1};{job + 1}" if jobs.array[job] < 0 else f"{job + 1};{10_000_000 + jobs.array[job]}_{job}"


def _tres(request: Request, memory_mib: int | None) -> tuple[str, int, int]:
    """Return what sacct lists as requested, the nodes and the processors."""
    chunk = request.chunks[0]
    nodes, cpus = chunk.copies, chunk.copies * chunk.cores
    memory = nodes * (chunk.memory_mib if memory_mib is None else memory_mib)
    terms = [f"billing={cpus}", f"cpu={cpus}", *([f"mem={memory}M"] if memory else []), f"node={nodes}"]
    if chunk.gpus:
        terms.append(f"gres/gpu{f':{chunk.gpu_type}' if chunk.gpu_type else ''}={nodes * chunk.gpus}")
    return ",".join(terms), nodes, cpus


def _distinct_memory_mib(cluster: Cluster, requests: list[Request], request: Int64) -> Int64:
    """Return the memory of each job: below that of its request, by another amount for each job of it."""
    most = [max(cluster.pools[pool].node_type.memory_mib for pool in cluster.candidates(each)) for each in requests]
    own = np.array([each.chunks[0].memory_mib or limit for each, limit in zip(requests, most, strict=True)])
    numbers: dict[Request, int] = {}
    kind = np.array([numbers.setdefault(each, len(numbers)) for each in requests])[request]
    order = np.argsort(kind, kind="stable")
    before = np.empty(len(request), dtype=np.int64)
    before[order] = np.arange(len(request)) - np.searchsorted(kind[order], kind[order])
    return np.maximum(own[request] - before, 1)


def wide_cluster_benchmarks() -> Iterator[Measured]:
    """Measure the whole command, reading included, on the largest clusters that offpeak is meant for."""
    for jobs, is_each_distinct in ((200_000, False), (300_000, True)):
        with tempfile.TemporaryDirectory() as folder:
            log, file = write_wide_log(Path(folder), jobs, is_each_distinct=is_each_distinct)
            wall_s, peak_mib = run_cold("estimate", str(log), "--cluster", str(file), "--time-zone", "UTC")
        requests = "each job with a request of its own" if is_each_distinct else "1,683 different requests"
        what = f"estimate, {NODES:,} nodes in {TYPES} types, {PARTITIONS} partitions, {requests}"
        yield Measured(what, wall_s, "s", 90.0, False, f"{jobs:,} generated jobs")
        yield Measured("its peak memory", peak_mib, "MiB", 1024.0, False, f"{jobs:,} generated jobs")

"""The engine for several pools: jobs per second with caches warm, on one core."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.bars import Measured
from benchmarks.engine import best_s
from benchmarks.logs import price_file
from benchmarks.mixed_usage import usage_of
from offpeak.model.arrays import Int64
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S
from offpeak.model.limits import PriorityWeights
from offpeak.model.request import Chunk, Request
from offpeak.model.step_integrals import StepIntegral, integrate_series
from offpeak.prices.file import read_series
from offpeak.prices.layout import parse_layout
from offpeak.prices.peak import Peak
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.case import EngineCase, RequestedJobs, engine_case
from offpeak.sim_backend.engine.priorities import ROOT, Priorities, ShareTree
from offpeak.sim_backend.engine.rules import PeakTimes
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import replay_case, rules_of
from offpeak.sim_backend.replay.schedule import Schedule

JOBS, ROUNDS, SEED, LOAD, ARRAY_TASKS = 100_000, 5, 1, 0.9, 20
GIB = 1024
IDLE_W, CORE_W, GPU_W = 150.0, 4.0, 250.0
TYPES = (
    (0.40, NodeType(64, 256 * GIB), ("batch", "short")),
    (0.15, NodeType(128, 512 * GIB), ("batch",)),
    (0.05, NodeType(64, 1024 * GIB), ("batch", "shared")),
    (0.25, NodeType(48, 192 * GIB), ("shared",)),
    (0.10, NodeType(64, 512 * GIB, gpus=(("a100", 4),)), ("gpu",)),
    (0.05, NodeType(32, 256 * GIB, gpus=(("v100", 2),)), ("gpu", "shared")),
)
"""Share of the nodes, type, and partitions: those of whole nodes and those that share nodes overlap in pools."""

ROLES = {"batch": (False, 1), "short": (False, 2), "shared": (True, 1), "gpu": (True, 1)}
"""By role of a partition: whether its nodes are shared, and its tier."""

PARTITION_SHARES = {"batch": 0.25, "short": 0.10, "shared": 0.45, "gpu": 0.20}


def cluster_of(nodes: int, pools: int, partitions: int) -> Cluster:
    """Return a cluster of that size; with more pools the types repeat with more memory, in the partitions in turn."""
    blocks = max(1, partitions // len(ROLES))
    shares = np.array([TYPES[pool % len(TYPES)][0] for pool in range(pools)])
    counts = np.maximum(1, np.floor(nodes * shares / shares.sum())).astype(int)
    counts[0] += nodes - counts.sum()
    found = []
    for pool, count in enumerate(counts.tolist()):
        _, kind, roles = TYPES[pool % len(TYPES)]
        block = pool // len(TYPES)
        names = frozenset(f"{role}{block % blocks}" for role in roles)
        found.append(Pool(kind._replace(memory_mib=kind.memory_mib + block * GIB), names, count))
    used = sorted({name for pool in found for name in pool.partitions})
    spare = (f"spare{number}" for number in range(max(0, partitions - len(used))))
    by_name = {name: Partition(name, *ROLES[name.rstrip("0123456789")]) for name in used}
    return Cluster(tuple(found), {**by_name, **{name: Partition(name) for name in spare}})


def requests_of(cluster: Cluster) -> dict[str, list[Request]]:
    """Return the requests of each partition, those that come often more than once."""
    found = {}
    for name in cluster.partitions:
        role = name.rstrip("0123456789")
        if role in ("batch", "short"):
            widths = (1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 16, 32) if role == "batch" else (1, 1, 1, 2, 4)
            chunks = [Chunk(width, 64) for width in widths]
        elif role == "shared":
            chunks = [
                Chunk(copies, cores, cores * memory * GIB)
                for copies in (1, 1, 1, 1, 1, 1, 2, 4)
                for cores in (1, 1, 1, 1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16, 24)
                for memory in range(1, 9)
            ]
        else:
            chunks = [
                Chunk(1, 8 * gpus + more, 32 * GIB * gpus, gpus, kind)
                for gpus in (1, 1, 1, 2, 2, 4)
                for kind in ("", "", "a100")
                for more in (0, 0, 2, 4)
            ]
        found[name] = [Request((name,), (chunk,)) for chunk in chunks if not cluster.misfit(Request((name,), (chunk,)))]
    return {name: requests for name, requests in found.items() if requests}


def jobs_for(cluster: Cluster, count: int, load: float = LOAD) -> tuple[list[Request], RequestedJobs]:
    """Return that many jobs, one in eight an array task; they offer `load` to the partition that they load the most."""
    random = np.random.default_rng(SEED)
    by_partition = requests_of(cluster)
    requests = [request for some in by_partition.values() for request in some]
    length = np.array([len(some) for some in by_partition.values()])
    share = np.array([PARTITION_SHARES[name.rstrip("0123456789")] for name in by_partition])
    partition = random.choice(len(share), size=count, p=share / share.sum())
    request = (np.cumsum(length) - length)[partition] + (random.random(count) * length[partition]).astype(np.int64)
    array = np.full(count, -1)
    for number, begin in enumerate(range(0, count, 8 * ARRAY_TASKS)):
        request[begin : begin + ARRAY_TASKS] = request[begin]
        array[begin : begin + ARRAY_TASKS] = number
    runtime_s = np.ceil(np.minimum(random.lognormal(7.2, 1.4, count), 2 * DAY_S)).astype(np.int64)
    span_s = max(_work_s(cluster, requests, request, runtime_s, name) for name in by_partition) / load
    submit_s = random.uniform(0, span_s, count).astype(np.int64)
    for begin in range(0, count, 8 * ARRAY_TASKS):
        submit_s[begin : begin + ARRAY_TASKS] = submit_s[begin]
    order = np.argsort(submit_s, kind="stable")
    parts_w = np.array([CORE_W * each.chunks[0].cores + GPU_W * each.chunks[0].gpus for each in requests])
    return requests, RequestedJobs(
        job_id=np.arange(1, count + 1),
        submit_s=submit_s[order],
        runtime_s=runtime_s[order],
        estimate_s=np.ceil(runtime_s * random.choice([1.0, 1.5, 2, 3, 5, 10], count)).astype(np.int64)[order],
        request=request[order],
        part_power_w=parts_w[request[order]] * random.uniform(0.7, 1.3, count),
        array=array[order],
        throttle=np.where(array[order] >= 0, ARRAY_TASKS // 2, 0),
    )


def _work_s(cluster: Cluster, requests: list[Request], request: Int64, runtime_s: Int64, partition: str) -> float:
    """Return for how long the jobs of the partition keep all its nodes busy."""
    nodes = sum(pool.nodes for pool in cluster.pools if partition in pool.partitions)
    nodes_of = np.zeros(len(requests))
    for number, each in enumerate(requests):
        pool = cluster.pools[cluster.candidates(each)[0]]
        is_whole = cluster.takes_whole_nodes(each, pool)
        if each.partitions == (partition,):
            chunk = each.chunks[0]
            nodes_of[number] = chunk.copies * (1.0 if is_whole else pool.node_type.share(chunk))
    return float((nodes_of[request] * runtime_s).sum()) / nodes


def case_for(nodes: int, pools: int, partitions: int) -> EngineCase:
    """Return the case of 100,000 generated jobs on a cluster of that size."""
    cluster = cluster_of(nodes, pools, partitions)
    return engine_case(cluster, *jobs_for(cluster, JOBS))


def charged(case: EngineCase, policy_name: str, scheduling: SchedulingSettings, meter: StepIntegral) -> Schedule:
    """Replay and charge the case under a policy."""
    policy = parse_policy(policy_name, scheduling)
    at_s = np.arange(0, int(case.workload.submit_s[-1]) + 30 * DAY_S, DAY_S // 2)
    peaks = PeakTimes(at_s, np.resize(np.array([Peak.OFF_PEAK, Peak.ON_PEAK], dtype=np.int8), len(at_s)))
    schedule = replay_case(case, policy, rules_of(policy), peaks=peaks)
    idle_w = np.full(len(case.cluster.pools), IDLE_W)
    usage_of(case, schedule, meter, idle_w, (0, int(schedule.end_s.max())))
    return schedule


def mixed_engine_benchmarks() -> Iterator[Measured]:
    """Measure EASY with energy and cost on clusters of three sizes, other policies on the smallest."""
    meter = integrate_series(read_series(price_file(), parse_layout("")), 1_600_000_000)
    for (nodes, pools, partitions), bar in (((1_000, 6, 4), 0.2), ((10_000, 20, 4), 0.06), ((20_000, 40, 30), 0.0)):
        case = case_for(nodes, pools, partitions)
        what = f"EASY with energy and cost, {nodes:,} nodes in {pools} pools, {partitions} partitions, shared nodes"
        yield _measured(what, case, "easy", meter, bar)
    case = case_for(1_000, 6, 4)
    for policy in ("fcfs", "greedy", "knapsack"):
        yield _measured(f"{policy}, window 20, every 30 s, 1,000 nodes in 6 pools", case, policy, meter, 0.0)
    easy, priorities = parse_policy("easy", SchedulingSettings()), fair_shares(case)
    best = best_s(lambda: replay_case(case, easy, rules_of(easy), priorities=priorities), ROUNDS)
    what = "EASY with fair share each 5 min, 200 users in 20 accounts, 1,000 nodes in 6 pools"
    yield Measured(what, len(case.kept) / best / 1e6, "million jobs/s", 0.2, True, "100,000 generated jobs")


def fair_shares(case: EngineCase) -> Priorities:
    """Return priorities by age, size and the fair share of 200 users in 20 accounts, few of whom run most jobs."""
    accounts, users, jobs = 20, 200, len(case.kept)
    parent = np.concatenate((np.full(accounts, ROOT), np.arange(users) % accounts))
    tree = ShareTree(parent, np.ones(accounts + users, dtype=np.int64), np.arange(accounts + users) >= accounts)
    none = np.zeros(jobs)
    return Priorities(
        weights=PriorityWeights(age=1000, fair_share=10_000, job_size=100),
        tree=tree,
        association=accounts + np.random.default_rng(SEED).zipf(1.6, jobs) % users,
        partition=none,
        qos=none,
        nice=none.astype(np.int64),
    )


def _measured(what: str, case: EngineCase, policy: str, meter: StepIntegral, bar: float) -> Measured:
    scheduling = replace(SchedulingSettings(), period_s=None if policy == "easy" else 30)
    best = best_s(lambda: charged(case, policy, scheduling, meter), ROUNDS)
    return Measured(what, len(case.kept) / best / 1e6, "million jobs/s", bar, True, "100,000 generated jobs")

"""A generated queue of a mixed cluster: hundreds of different requests, one job in eight an array.

Users submit bursts of jobs with one request, and popular requests come back, so that about a third of the pairs among
20 consecutive submissions have the same request, as in a log of a GPU cluster.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.request import Chunk, Request
from offpeak.model.step_series import Series
from offpeak.plugin.queue_hook.facts import NO_GROUP, QueueFacts
from offpeak.plugin.queue_hook.positions import JobMarks, queue_positions
from offpeak.plugin.queue_hook.window import group_positions, startable_positions
from offpeak.plugin.scheduler.job import Job, JobState
from offpeak.plugin.scheduler.port import Ranking
from offpeak.prices.peak import Peak

NOW_S, HOUR_S = 1_795_000_000, 3600
HIGHEST = 4_294_901_759
TYPES = (
    (NodeType(48, 192_000), ("cpu", "all"), 400),
    (NodeType(64, 256_000), ("cpu", "all"), 300),
    (NodeType(64, 1_024_000, features=frozenset({"bigmem"})), ("cpu", "fat"), 40),
    (NodeType(64, 512_000, (("a100", 4),)), ("gpu",), 100),
    (NodeType(32, 384_000, (("v100", 2),)), ("gpu",), 60),
    (NodeType(128, 512_000), ("long",), 100),
)
"""Types, partitions and numbers of nodes."""
PARTITIONS = ("cpu", "all", "fat", "gpu", "long")
REPEATED = 0.75
"""The share of jobs with the request of the job before."""
ARRAYS = 1 / 8
NOT_PLAIN = 0.03
"""The share of jobs with dependencies, and of heterogeneous jobs."""


def mixed_cluster() -> Cluster:
    """Return 1,000 nodes of six types in five partitions."""
    pools = tuple(Pool(node_type, frozenset(partitions), nodes) for node_type, partitions, nodes in TYPES)
    return Cluster(pools, {name: Partition(name, shared=True) for name in PARTITIONS})


def mixed_requests(count: int, random: np.random.Generator) -> list[Request]:
    """Return so many different requests, each of which fits some nodes."""
    found: dict[Request, None] = {}
    cluster = mixed_cluster()
    while len(found) < count:
        partition = str(random.choice(PARTITIONS, p=(0.4, 0.15, 0.05, 0.3, 0.1)))
        cores = int(random.choice([1, 2, 4, 8, 16, 24, 32, 48]))
        memory = int(1024 * random.choice([0, 2, 4, 8, 9, 10, 16, 30, 32, 64, 100, 120]))
        gpus = int(random.choice([1, 1, 2, 4])) if partition == "gpu" else 0
        kind = str(random.choice(["", "", "a100", "v100"])) if gpus else ""
        features = (frozenset({"bigmem"}),) if partition == "fat" else ()
        nodes = int(random.choice([1, 1, 1, 1, 2, 4, 8]))
        chunk = Chunk(nodes, cores, memory, gpus, kind, features)
        qos = str(random.choice(["normal", "normal", "high"]))
        request = Request((partition,), (chunk,), whole_nodes=bool(random.random() < 0.2), qos=qos)
        if cluster.candidates(request):
            found[request] = None
    return list(found)


def mixed_queue(jobs: int, requests: int, arrays: int | None = None, *, seed: int = 1) -> QueueFacts:
    """Return a queue of so many pending records; without a number of `arrays` one in eight is an array."""
    random = np.random.default_rng(seed)
    known = mixed_requests(requests, random)
    popularity = 1 / np.arange(1, requests + 1)
    drawn = random.choice(requests, jobs, p=popularity / popularity.sum())
    repeats = random.random(jobs) < REPEATED
    share = ARRAYS if arrays is None else arrays / jobs
    is_array, is_plain = random.random(jobs) < share, random.random(jobs) >= NOT_PLAIN
    pending, number = [], -1
    for at in range(jobs):
        number = number if repeats[at] and at else int(drawn[at])
        tasks = int(random.integers(2, 1000)) if is_array[at] else 0
        pending.append(_job(at + 1, known[number], tasks, is_plain=bool(is_plain[at])))
    watts = random.uniform(100, 500, jobs)
    draws = {job.job_id: float(power_w) for job, power_w in zip(pending, watts, strict=True)}
    cluster = mixed_cluster()
    start_s = NOW_S - HOUR_S + HOUR_S * np.arange(168, dtype=np.int64)
    value = 100 + 30 * np.sin(2 * np.pi * np.arange(168) / 24 + 2)
    prices = Series(start_s, int(start_s[-1]) + HOUR_S, value, "EUR/MWh", "made up")
    return QueueFacts(
        NOW_S, tuple(pending), Ranking.VALUE, Peak.ON_PEAK, NOW_S + HOUR_S, prices, ("forecast",) * 168, draws,
        cluster=cluster, free_nodes=(8,) * len(cluster.pools),
    )  # fmt: skip


def _job(number: int, request: Request, tasks: int, *, is_plain: bool) -> Job:
    (chunk,) = request.chunks
    array_id = str(number) if tasks else ""
    return Job(
        str(number), JobState.PENDING, "PENDING", "Priority", "ann", "", "job", "", request.partitions, request, "",
        request.qos, HIGHEST - number, 0, chunk.copies, request.cores, request.whole_nodes, HOUR_S * (1 + number % 48),
        NOW_S - 20_000 + number, None, None, None, "", is_plain, array_id, max(tasks, 1), 20 if tasks else 0,
    )  # fmt: skip


def share_ordered(facts: QueueFacts, window: int, *, equal_requests_only: bool) -> float:
    """Return the share of the jobs in the groups' windows that may change places with another job of their window.

    `equal_requests_only`: the rule of earlier versions, by which only single jobs with equal requests competed. A
    window has the first jobs of a group, those that take no part included.
    """
    marks: dict[str, JobMarks] = {}
    positions = queue_positions(facts.pending, marks, facts)
    startable = (each for each in startable_positions(positions.all, (), facts) if each.job.plain)
    groups = group_positions(startable, facts)
    groups.pop(NO_GROUP, None)
    taking_part = {each.job.job_id for group in groups.values() for each in group if len(group) > 1}
    seen: Counter[object] = Counter()
    windows: dict[object, list[Job]] = {}
    for job in sorted(facts.pending, key=lambda job: -job.priority):
        group = facts.competition.group(job)
        if seen[group] < window:
            seen[group] += 1
            windows.setdefault(group, []).append(job)
    jobs = [job for members in windows.values() for job in members]
    if equal_requests_only:
        ordered = sum(_with_an_equal(members) for members in windows.values())
    else:
        ordered = sum(job.job_id in taking_part for job in jobs)
    return ordered / max(len(jobs), 1)


def _with_an_equal(jobs: Sequence[Job]) -> int:
    requests = Counter(job.request for job in jobs if job.plain and not job.is_array)
    return sum(count for count in requests.values() if count > 1)

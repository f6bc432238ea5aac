"""The jobs that a running slurmctld stops for another are those that the engine stops."""

from collections.abc import Iterator

import numpy as np
import pytest
from random_logs import PLAIN, policy_of
from slurm_fixtures import NODES, accounting_slurm

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import PreemptMode
from offpeak.model.request import Chunk, Request
from offpeak.plugin.slurm.configuration import traits_of_text
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.replay.replay import replay_case, rules_of

PREEMPTING = """
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL Default=YES State=UP
PartitionName=mid Nodes=ALL State=UP PriorityTier=3 PreemptMode=CANCEL
PartitionName=off Nodes=ALL State=UP PreemptMode=OFF
PartitionName=high Nodes=ALL State=UP PriorityTier=10
"""
CORES = 4
PATIENCE_S = 300.0


def whole(partition: str, nodes: int) -> Request:
    return Request((partition,), (Chunk(nodes, 1),), whole_nodes=True)


def half(partition: str, cores: int = 2) -> Request:
    return Request((partition,), (Chunk(1, cores),))


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with accounting_slurm(PREEMPTING) as accounting:
        yield accounting.cluster


def model_of(slurm: SlurmCluster) -> Cluster:
    """Return the cluster by what slurmctld shows of its partitions."""
    config, shown = (slurm.run("scontrol", "--all", "--oneliner", "show", what) for what in ("config", "partitions"))
    partitions = {each.name: each for each in traits_of_text(config.encode(), shown.encode()).partitions}
    return Cluster((Pool(NodeType(CORES), frozenset(partitions), NODES),), partitions)


def stopped_by_the_engine(cluster: Cluster, requests: list[Request]) -> tuple[set[int], set[int]]:
    """Return which jobs wait again, and which are lost."""
    count = len(requests)
    jobs = RequestedJobs(
        job_id=np.arange(count),
        submit_s=10 * np.arange(count),
        runtime_s=np.full(count, 1000),
        estimate_s=np.full(count, 3600),
        request=np.arange(count),
        part_power_w=np.ones(count),
    )
    policy = policy_of(PLAIN)
    found = replay_case(engine_case(cluster, requests, jobs), policy, rules_of(policy))
    return set(found.lost.job.tolist()), set(found.cancelled.tolist())


def stopped_by_slurm(slurm: SlurmCluster, requests: list[Request]) -> tuple[set[int], set[int]]:
    """Return the same of a running slurmctld once it has started all jobs."""
    numbers: list[str] = []
    for request in requests:
        chunk = request.chunks[0]
        size = ["--exclusive", f"--nodes={chunk.copies}"] if request.whole_nodes else ["-N1", f"-n{chunk.cores}"]
        common = ("--parsable", "--output=/dev/null", "--chdir=/tmp", "--time=60", "--wrap=exec sleep 1000")
        numbers.append(slurm.run("sbatch", f"--partition={request.partitions[0]}", *size, *common).strip())
        wait_until(lambda: states_of(slurm).get(numbers[-1]) == "RUNNING", what="the job", seconds=PATIENCE_S)
    states = states_of(slurm)
    waiting = {at for at, number in enumerate(numbers) if states.get(number) == "PENDING"}
    gone = {at for at, number in enumerate(numbers) if states.get(number) == "PREEMPTED"}
    slurm.run("scancel", "--user=root")
    wait_until(lambda: not slurm.run("squeue", "--noheader").strip(), what="the ends of the jobs", seconds=PATIENCE_S)
    return waiting, gone


def states_of(slurm: SlurmCluster) -> dict[str, str]:
    lines = slurm.run("squeue", "--noheader", "--states=all", "--format=%i %T").splitlines()
    return dict(line.split() for line in lines)


@pytest.mark.parametrize(
    ("running", "needed"),
    [
        ([whole("low", 1)] * 4, whole("high", 1)),
        ([whole("low", 1), whole("low", 2), whole("low", 1)], whole("high", 2)),
        ([whole("low", 1), whole("low", 1), whole("low", 2)], whole("high", 3)),
        ([half("low")] * 8, half("high", 3)),
        ([whole("mid", 1), whole("mid", 1), whole("low", 1), whole("low", 1)], whole("high", 3)),
        ([whole("low", 1), whole("off", 2)], whole("high", 2)),
    ],
    ids=["first", "narrow", "needed", "shared", "tiers", "off"],
)
def test_the_engine_stops_the_jobs_that_slurmctld_stops(
    slurm: SlurmCluster, running: list[Request], needed: Request
) -> None:
    requests = [*running, needed]
    cluster = model_of(slurm)
    assert cluster.partitions["mid"] == Partition(
        "mid", shared=True, priority_tier=3, preempts=True, preempt_mode=PreemptMode.CANCEL
    )
    assert stopped_by_slurm(slurm, requests) == stopped_by_the_engine(cluster, requests)

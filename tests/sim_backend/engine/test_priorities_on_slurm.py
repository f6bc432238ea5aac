"""The parts of the multifactor priority, computed by the engine and by a running slurmctld with slurmdbd."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from share_trees import share_tree
from slurm_fixtures import NODES, SlurmAccounting, accounting_slurm

from benchmarks.local_slurm.processes import wait_until
from benchmarks.local_slurm.servers import SlurmCluster
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.constants import DAY_S
from offpeak.model.limits import PriorityOrder, PriorityWeights
from offpeak.model.request import Chunk, Request
from offpeak.plugin.slurm.accounting import read_priority
from offpeak.plugin.slurm.scheduler import SlurmScheduler
from offpeak.settings.agent import SlurmSettings
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case
from offpeak.sim_backend.engine.priorities import ROOT, Priorities, classic_factors, fair_tree_factors

MULTIFACTOR = """
PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityMaxAge=1-0
PriorityWeightAge=1000
PriorityWeightFairshare=100000
PriorityWeightJobSize=10000
PriorityWeightPartition=1000
PartitionName=batch Nodes=ALL Default=YES State=UP PriorityJobFactor=5
PartitionName=again Nodes=ALL State=UP PriorityJobFactor=20
"""
CLASSIC = "PriorityFlags=NO_FAIR_TREE,SMALL_RELATIVE_TO_TIME\nPriorityFavorSmall=YES\n"
WEIGHTS = PriorityWeights(age=1000, fair_share=100_000, job_size=10_000, partition=1000, max_age_s=DAY_S)
USED = (("physics", "root", 16, 8), ("chemistry", "daemon", 4, 10), ("lasers", "root", 8, 4))
"""Jobs that run before: account, user, cores and seconds."""

PARTITION_FACTORS = {"batch": 5, "again": 20}
COMPUTED_S = 150


class PendingJob(NamedTuple):
    account: str
    user: str
    nodes: int
    cores: int
    minutes: int
    partition: str = "batch"
    nice: int = 0


PENDING = (
    PendingJob("physics", "root", 1, 1, 60),
    PendingJob("lasers", "root", 4, 4, 10),
    PendingJob("chemistry", "daemon", 2, 1, 600),
    PendingJob("chemistry", "root", 1, 3, 1, partition="again"),
    PendingJob("root", "root", 3, 2, 30, nice=77),
)


def submit(cluster: SlurmCluster, account: str, user: str, *options: str) -> str:
    common = (f"--account={account}", f"--uid={user}", "--output=/dev/null", "--chdir=/tmp")
    return cluster.run("sbatch", "--parsable", *common, *options).strip()


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[SlurmAccounting, list[str]]]:
    """A Slurm on which three users have used nodes and five jobs wait."""
    with accounting_slurm(MULTIFACTOR) as accounting:
        cluster = accounting.cluster

        def add(what: str, name: str, *values: str) -> None:
            cluster.run("sacctmgr", "--immediate", "add", what, name, *values)

        add("account", "physics", "fairshare=30")
        add("account", "chemistry", "fairshare=10")
        add("account", "lasers", "parent=physics", "fairshare=2")
        for account, user, shares in (("physics", "root", 3), ("lasers", "root", 1), ("chemistry", "root", 4)):
            add("user", user, f"account={account}", f"fairshare={shares}")
        add("user", "daemon", "account=chemistry", "fairshare=1")
        for account, user, cores, seconds in USED:
            submit(cluster, account, user, f"--ntasks={cores}", f"--wrap=sleep {seconds}")
        wait_until(lambda: not cluster.run("squeue", "--noheader"), what="the jobs to end")
        for partition in PARTITION_FACTORS:
            cluster.run("scontrol", "update", f"partition={partition}", "state=DOWN")
        jobs = [
            submit(
                cluster,
                job.account,
                job.user,
                f"--nodes={job.nodes}",
                f"--ntasks={job.nodes}",
                f"--cpus-per-task={job.cores}",
                f"--time={job.minutes}",
                f"--partition={job.partition}",
                f"--nice={job.nice}",
                "--wrap=true",
            )
            for job in PENDING
        ]
        yield accounting, jobs


def associations(cluster: SlurmCluster) -> list[list[str]]:
    """Return account, user, shares, usage and fair-share factor; accounts are indented by their depth."""
    lines = cluster.run("sshare", "--all", "--parsable2", "--format=Account,User,RawShares,RawUsage,FairShare")
    return [line.split("|") for line in lines.splitlines()[2:]]


def tree_of(rows: list[list[str]]):
    parents = {0: ROOT}
    found = []
    for number, (account, user, shares, _, _) in enumerate(rows):
        depth = len(account) - len(account.lstrip()) - 1
        parents[depth + 1] = number
        found.append((parents[depth], int(shares), bool(user)))
    return share_tree(*found)


def expected_factors(rows: list[list[str]], weights: PriorityWeights) -> np.ndarray:
    usage = np.array([float(used) if user else 0.0 for _, user, _, used, _ in rows])
    tree = tree_of(rows).arrays
    return fair_tree_factors(tree, usage) if weights.is_fair_tree else classic_factors(tree, usage, 1.0)


def shown(rows: list[list[str]]) -> np.ndarray:
    return np.array([float(factor) if user else 0.0 for _, user, _, _, factor in rows])


def compare(cluster: SlurmCluster, jobs: list[str], weights: PriorityWeights) -> None:
    """Compare each part of each waiting job's priority, as sprio shows them, when Slurm has computed them."""

    def differs() -> float:
        rows = associations(cluster)
        users = [bool(user) for _, user, *_ in rows]
        return float(np.abs(expected_factors(rows, weights) - shown(rows))[users].max())

    # sshare shows the usage as whole numbers.
    most = 1e-5 if weights.is_fair_tree else 0.01
    wait_until(lambda: differs() < most, what="the fair share of both to agree", seconds=COMPUTED_S, every_s=1)
    rows = associations(cluster)
    users = [(account.strip(), user) for account, user, *_ in rows]
    factor_of = dict(zip(users, expected_factors(rows, weights), strict=True))

    equipment = Pool(NodeType(4, 1000), frozenset(PARTITION_FACTORS), NODES)
    nodes = Cluster((equipment,), {name: Partition(name, shared=True) for name in PARTITION_FACTORS})
    number = np.arange(len(PENDING))
    time_s = np.array([job.minutes * 60 for job in PENDING])
    requests = [Request((job.partition,), (Chunk(job.nodes, job.cores),)) for job in PENDING]
    case = engine_case(nodes, requests, RequestedJobs(number, number * 0, time_s, time_s, number, number * 1.0))
    partition = np.array([PARTITION_FACTORS[job.partition] / max(PARTITION_FACTORS.values()) for job in PENDING])
    one_user = share_tree((ROOT, 1, 1))
    nice = np.array([job.nice for job in PENDING])
    fixed = Priorities(weights, one_user, number * 0, partition, number * 0.0, nice).initial_state(case).fixed

    def differences() -> list[float]:
        """Return by how much the parts and the priorities of each job differ; each shown part is rounded."""
        lines = cluster.run("sprio", "--noheader", "--format=%i|%Y|%A|%F|%J|%P").splitlines()
        parts = {line.split("|")[0].strip(): [float(value) for value in line.split("|")[1:]] for line in lines}
        found = []
        for job, pending, own in zip(jobs, PENDING, fixed.tolist(), strict=True):
            priority, age, fair_share, size, of_partition = parts[job]
            own_share = weights.fair_share * factor_of[pending.account, pending.user]
            found.append(abs(own_share - fair_share) - weights.fair_share * most)
            found.append(abs(own + pending.nice - size - of_partition))
            found.append(abs(priority - (own + age + fair_share)) - 1)
        return found

    wait_until(lambda: max(differences()) < 2, what="the priorities of both to agree", seconds=COMPUTED_S, every_s=1)


def test_the_fair_tree_and_the_size_of_jobs_are_those_of_slurm(site):
    accounting, jobs = site
    compare(accounting.cluster, jobs, WEIGHTS)


def test_the_order_of_the_site_is_read(site, monkeypatch):
    accounting, _ = site
    cluster = accounting.cluster
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    found = read_priority()
    assert (found.order, found.not_modelled) == (PriorityOrder.MULTIFACTOR, ())
    assert found.weights == WEIGHTS._replace(calc_period_s=60)
    assert {each.name: (each.parent, each.shares) for each in found.accounts} == {
        "root": ("", None),
        "chemistry": ("root", 10),
        "physics": ("root", 30),
        "lasers": ("physics", 2),
    }
    rows = associations(cluster)
    listed = {(account.strip(), user): int(shares) for account, user, shares, *_ in rows if user}
    read = {(account.name, user): shares for account in found.accounts for user, shares in account.users}
    assert read == listed
    partitions = SlurmScheduler(SlurmSettings()).traits().partitions
    assert {each.name: each.job_factor for each in partitions} == PARTITION_FACTORS


def test_the_classic_formula_and_the_size_in_time_are_those_of_slurm(site):
    accounting, jobs = site
    cluster = replace(accounting.cluster, settings=accounting.settings.replace("State=UP", "State=DOWN") + CLASSIC)
    cluster.write_conf()
    cluster.run("scontrol", "reconfigure")
    weights = WEIGHTS._replace(is_fair_tree=False, small_relative_to_time=True, favor_small=True)
    compare(cluster, jobs, weights)

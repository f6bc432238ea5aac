"""The order of a log's jobs on a cluster: by submission, by recorded priorities, or by Slurm's formula."""

from dataclasses import replace

import numpy as np
import pytest
from random_logs import log_of

from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.jobs import LogNames, Trace
from offpeak.model.limits import PriorityOrder, PriorityWeights, Qos, ShareAccount, SitePriority
from offpeak.model.request import Chunk, Request
from offpeak.settings.replay import SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.case.replay_case import prepare
from offpeak.sim_backend.case.site_jobs import site_jobs
from offpeak.sim_backend.case.site_priorities import site_priorities
from offpeak.sim_backend.comparison.compare import compare
from offpeak.sim_backend.comparison.likeness import Likeness
from offpeak.sim_backend.engine.priorities import ROOT
from offpeak.sim_backend.replay.policy import parse_policy

BY_TIER = "jobs start by the tier of their partition, then by "
PARTITIONS = {"cpu": Partition("cpu"), "fast": Partition("fast", job_factor=10)}
NODE = Cluster((Pool(NodeType(8), frozenset(PARTITIONS), 1),), PARTITIONS, qos={"high": Qos("high", priority=5)})
ACCOUNTS = (
    ShareAccount("lasers", "physics", 2, (("anna", 1),)),
    ShareAccount("root", "", None, (("dora", 1),)),
    ShareAccount("physics", "root", 30, (("anna", 3), ("bob", None), ("carl", None))),
    ShareAccount("optics", "physics", None, (("eva", 4),)),
)
JobColumn = list[int]


def trace_of(
    *, priority: JobColumn | None = None, group: JobColumn | None = None, user: JobColumn | None = None
) -> Trace:
    """Return three jobs of 100 s that are submitted within two seconds, each on the node alone."""
    jobs = log_of([(number, 100, 100, 1, 100) for number in range(3)], machine_size=1).jobs
    columns = {"priority": priority, "group": group, "user": user}
    given = {name: np.array(column) for name, column in columns.items() if column is not None}
    jobs = replace(jobs, queue=np.array([0, 0, 1]), logged_start_s=np.full(3, -1), **given)
    names = LogNames(user=("anna", "bob", "zoe"), group=("physics", "lasers", "new"), queue=("cpu", "fast"))
    return Trace("a log", jobs, None, None, 0, "UTC", names=names, units_per_node=1)


def ordered_by(**weights: int) -> Cluster:
    return replace(NODE, priority=SitePriority(PriorityOrder.MULTIFACTOR, PriorityWeights(**weights, calc_period_s=10)))


def starts(trace: Trace, cluster: Cluster) -> list[int]:
    case = prepare(trace, Settings(), start=None, cluster=cluster).case
    schedule = compare(case, (parse_policy("fcfs", SchedulingSettings()),)).runs[0].schedule
    return schedule.start_s.tolist()


def test_recorded_priorities_order_the_jobs() -> None:
    trace = trace_of(priority=[1, 1, 2])
    assert starts(trace_of(), NODE) == [0, 100, 200]
    assert starts(trace, NODE) == [0, 200, 100]
    by_submission = replace(NODE, priority=SitePriority(PriorityOrder.SUBMISSION))
    assert starts(trace, by_submission) == [0, 100, 200]
    tiers = {name: each._replace(priority_tier=2 if name == "cpu" else 1) for name, each in PARTITIONS.items()}
    assert starts(trace, replace(NODE, partitions=tiers)) == [0, 100, 200]


def test_recorded_priorities_are_named_and_those_that_lack_are_the_median() -> None:
    site = site_jobs(trace_of(priority=[7, -1, 5]), NODE)
    assert site.jobs.priority is not None
    assert site.jobs.priority.tolist() == [7, 7, 5]
    (line,) = [note for note in site.notes if note.startswith(BY_TIER)]
    assert line.startswith(f"{BY_TIER}the priority that the log records for their start; not modelled: ")
    assert "1 job without a recorded priority: taken for the median" in site.notes


def test_an_order_that_the_log_does_not_record_is_that_of_submission() -> None:
    failed = SitePriority(PriorityOrder.RECORDED, not_modelled=("Slurm's weights (scontrol: refused)",))
    site = site_jobs(trace_of(), replace(NODE, priority=failed))
    assert site.jobs.priority is None
    (line,) = [note for note in site.notes if note.startswith(BY_TIER)]
    assert line.startswith(f"{BY_TIER}submission; not modelled: Slurm's weights (scontrol: refused), ")
    assert starts(trace_of(), replace(NODE, priority=failed)) == [0, 100, 200]


def test_partitions_and_qos_have_their_weights() -> None:
    assert starts(trace_of(), ordered_by(partition=100)) == [0, 200, 100]
    one = Request(("cpu",), (Chunk(1),), apart=True, whole_nodes=True)
    high = replace(trace_of(), requests=(one, one._replace(qos="high")))
    high = replace(high, jobs=replace(high.jobs, request=np.array([0, 0, 1])))
    assert starts(high, ordered_by(qos=100)) == [0, 200, 100]
    assert starts(high, ordered_by(age=100)) == [0, 100, 200]


def test_users_that_have_used_more_start_later() -> None:
    trace = trace_of(group=[0, 0, 0], user=[0, 0, 1])
    assert starts(trace, ordered_by(age=1)) == [0, 100, 200]
    assert starts(trace, ordered_by(fair_share=1000)) == [0, 200, 100]
    classic = ordered_by(fair_share=1000)
    assert classic.priority is not None
    weights = classic.priority.weights._replace(is_fair_tree=False)
    assert starts(trace, replace(classic, priority=classic.priority._replace(weights=weights))) == [0, 200, 100]


def test_the_accounts_of_the_log_are_those_of_the_cluster() -> None:
    weights = PriorityWeights(fair_share=1)
    cluster = replace(NODE, priority=SitePriority(PriorityOrder.MULTIFACTOR, weights, ACCOUNTS))
    trace = trace_of(group=[1, -1, 2], user=[0, 1, 2])
    found, notes = site_priorities(trace.jobs, trace.names, cluster)
    # physics, lasers; dora, anna of lasers and of physics, bob and carl as one, eva; the account new and zoe.
    rows = [(0, 2, False), (0, 1, True), (ROOT, 1, True), (0, 3, True), (0, 1, True), (0, 4, True)]
    tree = list(zip(found.tree.parent.tolist(), found.tree.shares.tolist(), found.tree.is_user.tolist(), strict=True))
    assert sorted(tree[2:8]) == sorted([(1, 1, True), *rows[2:], (ROOT, 1, False)])
    assert tree[:2] == [(ROOT, 30, False), (0, 2, False)]
    jobs = replace(trace.jobs, request=np.zeros(3, np.int64))
    associations = found.for_jobs(jobs, (Request((), (Chunk(1),)),), cluster).association.tolist()
    assert [tree[row] for row in associations] == [(1, 1, True), (0, 1, True), (len(tree) - 2, 1, True)]
    assert notes == ("1 user of the log without shares in the cluster: one share each",)


def test_without_accounts_all_users_have_equal_shares() -> None:
    cluster = ordered_by(fair_share=10)
    site = site_jobs(trace_of(group=[-1, -1, -1], user=[0, 1, -1]), cluster)
    assert site.priorities is not None
    assert site.priorities.tree.parent.tolist() == [ROOT, ROOT, ROOT]
    assert "3 users of the log without shares in the cluster: one share each" in site.notes
    (line,) = [note for note in site.notes if note.startswith(BY_TIER)]
    assert line.startswith(f"{BY_TIER}Slurm's multifactor priority (fair share 10); not modelled: ")


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (PriorityOrder.SUBMISSION, "the site orders jobs by priorities that the log does not tell"),
        (PriorityOrder.RECORDED, "the log records the priority at the start of a job, not those while it waits"),
        (PriorityOrder.MULTIFACTOR, "usage before the log, nice and priorities set by hand are not modelled"),
    ],
)
def test_a_start_order_that_differs_has_the_reason_of_its_order(order: PriorityOrder, reason: str) -> None:
    (line,) = Likeness(100.0, 100.0, 0.5, (), order).differences
    assert line.endswith(f": {reason}")

"""The arrays of a mixed case: which jobs are left out and why, the order of pools, and what a job weighs."""

from dataclasses import replace

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.limits import Allowance, Qos
from offpeak.model.request import Chunk, Request
from offpeak.sim_backend.engine.case import RequestedJobs, engine_case

THIN, FAT = NodeType(16, 64_000), NodeType(16, 256_000)
GPU = NodeType(32, 128_000, gpus=(("a100", 2), ("h100", 2)))
CLUSTER = Cluster(
    (
        Pool(GPU, frozenset({"all", "gpu"}), 2),
        Pool(FAT, frozenset({"all", "short"}), 2),
        Pool(THIN, frozenset({"all", "short"}), 4),
        Pool(THIN, frozenset({"own"}), 3),
    ),
    {
        "all": Partition("all", shared=True, limit_s=1000),
        "short": Partition("short", shared=True, priority_tier=5, most_nodes=2, limit_s=100),
        "gpu": Partition("gpu", shared=True),
        "own": Partition("own"),
        "nothing": Partition("nothing"),
    },
)


def case_of(*requests: Request, estimate_s=(), cluster=CLUSTER, **columns):
    count = len(requests)
    jobs = RequestedJobs(
        job_id=np.arange(1, count + 1),
        submit_s=np.arange(count),
        runtime_s=np.full(count, 10),
        estimate_s=np.array(estimate_s or [10] * count),
        request=np.arange(count),
        part_power_w=np.full(count, 100.0),
        **columns,
    )
    return engine_case(cluster, requests, jobs)


def test_jobs_that_fit_nowhere_are_named_with_the_reason_and_left_out():
    case = case_of(
        Request(("all",), (Chunk(1, 4),)),
        Request(("nowhere",), (Chunk(1),)),
        Request(("nothing",), (Chunk(1),)),
        Request(("gpu",), (Chunk(1, gpus=5),)),
        Request(("short",), (Chunk(3),)),
        Request(("all",), ()),
        Request(("gpu",), (Chunk(2, 32), Chunk(1, 1))),
        Request(("all",), (Chunk(1),)),
        Request(("own",), (Chunk(4, 1),)),
        estimate_s=[10, 10, 10, 10, 10, 10, 10, 1001, 10],
    )
    assert case.job_id.tolist() == [1]
    assert {rejected.reason: rejected.job_ids for rejected in case.rejected} == {
        "there is no partition nowhere": (2,),
        "partition nothing has no node for it": (3,),
        "no node of partition gpu has 1 core, 5 GPUs": (4,),
        "partition short admits no job of 3 nodes": (5,),
        "the request has no parts": (6,),
        "its parts do not fit together": (7,),
        "partition all admits no job with a time limit above 17 min": (8,),
        "partition own has 3 of 4 nodes with 1 core": (9,),
    }


def test_a_request_loses_the_partitions_that_do_not_admit_the_job():
    both = Request(("all", "short"), (Chunk(1),))
    case = case_of(both, both, estimate_s=[100, 101])
    assert [request.partitions for request in case.request_of] == [("all", "short"), ("all",)]
    assert case.workload.rank.tolist() == [0, 1]
    assert not case.rejected


def test_a_chunk_fills_the_pools_that_leave_the_least_over_first():
    case = case_of(Request(("all",), (Chunk(1, 4, 8_000),)))
    assert case.tables.option_pool.tolist() == [2, 1, 0]


def test_jobs_are_ranked_by_tier_then_priority_then_submission():
    low, high = Request(("all",), (Chunk(1),)), Request(("short",), (Chunk(1),))
    case = case_of(low, low, high, low, priority=np.array([0, 7, -3, 7]))
    assert case.workload.rank.tolist() == [3, 1, 0, 2]


def test_groups_share_no_pool_and_pools_that_no_request_uses_have_none():
    case = case_of(Request(("own",), (Chunk(1),)), Request(("short",), (Chunk(1),)), Request(("all",), (Chunk(1),)))
    assert case.tables.class_group.tolist() == [1, 0, 0]
    assert case.tables.cell_first.tolist() == [0, 2, 4, 8, 9]


def test_a_job_on_a_share_of_a_node_is_weighed_by_its_share():
    case = case_of(
        Request(("all",), (Chunk(2, 4),)),
        Request(("all",), (Chunk(2, 1, 32_000),)),
        Request(("all",), (Chunk(2),), whole_nodes=True),
    )
    assert case.workload.size.tolist() == [8, 16, 32]
    assert case.workload.node_power_w.tolist() == [400, 200, 100]
    assert case.power_w.tolist() == [200, 200, 200]


def test_an_array_without_a_throttle_may_run_all_its_tasks():
    one = Request(("all",), (Chunk(1),))
    case = case_of(one, one, one, array=np.array([70, -1, 9]), throttle=np.array([0, 0, 4]))
    limits = case.workload.limits
    assert np.diff(limits.first)[limits.demand].tolist() == [0, 0, 1]
    assert (limits.most.tolist(), limits.amount.tolist()) == ([4], [1])


def test_jobs_that_no_limit_ever_admits_are_left_out():
    gpu = Request(("gpu",), (Chunk(1, 4, gpus=2),))
    qos = {"small": Qos("small", per_user=Allowance(cores=3)), "none": Qos("none", Allowance(jobs=0))}
    cluster = replace(CLUSTER, licences={"matlab": 2}, qos=qos)
    requests = [
        gpu._replace(licences=(("matlab", 2), ("unknown", 3))),
        gpu._replace(licences=(("matlab", 3),)),
        gpu._replace(qos="small"),
        gpu._replace(qos="none"),
    ]
    case = case_of(*requests, cluster=cluster)
    assert case.job_id.tolist() == [1]
    assert {rejected.reason: rejected.job_ids for rejected in case.rejected} == {
        "the cluster has 2 of licence matlab, not 3": (2,),
        "QOS small allows a user 3 cores at a time, not 4": (3,),
        "QOS none allows all jobs 0 jobs at a time, not 1": (4,),
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"submit_s": np.array([5, 4])}, "job 2 was submitted before job 1"),
        ({"request": np.array([0, 3])}, "job 2 has request 3, but there are 1 request"),
        ({"runtime_s": np.array([0, -1])}, "job 2 has a negative run time"),
    ],
)
def test_bad_columns_are_refused_by_the_job(change, words):
    columns = {name: np.array([0, 0]) for name in ("submit_s", "runtime_s", "estimate_s", "request")}
    with pytest.raises(BadInput, match=words):
        engine_case(
            CLUSTER,
            [Request((), (Chunk(1),))],
            RequestedJobs(job_id=np.array([1, 2]), part_power_w=np.ones(2), **{**columns, **change}),
        )


def test_no_job_at_all_is_a_case():
    assert len(case_of().workload.submit_s) == 0

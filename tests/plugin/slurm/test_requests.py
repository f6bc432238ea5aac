"""What jobs of Slurm request, whatever terms they use, and the GRES of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.model.request import Chunk, Request
from offpeak.plugin.slurm.requests import (
    RequestTerms,
    count_tasks,
    is_per_cpu,
    parse_node_gres,
    parse_request,
    throttle,
)

pytestmark = pytest.mark.quick

PLAIN = RequestTerms("batch", 1, 1, 1, 1, 0, False, "(null)", "(null)", "normal", "", "", "(null)", False, *["N/A"] * 4)


def request_of(**terms: object) -> Request:
    request, problem = parse_request(PLAIN._replace(**terms))  # type: ignore[arg-type]
    assert problem == ""
    assert request is not None
    return request


@pytest.mark.parametrize(
    ("terms", "chunk", "apart"),
    [
        ({}, Chunk(1, 1), True),
        ({"nodes": 2, "tasks": 2, "cpus": 8, "min_cpus": 4}, Chunk(2, 4), True),
        # Tasks without a number of nodes: each needs one core, on any node.
        ({"nodes": 1, "tasks": 5, "cpus": 5}, Chunk(5, 1), False),
        ({"nodes": 1, "tasks": 4, "cpus": 8, "memory_mib": 100, "memory_per_cpu": True}, Chunk(4, 2, 200), False),
        # Memory by node, tasks by node: each node needs its share.
        ({"nodes": 2, "tasks": 8, "cpus": 8, "memory_mib": 9216}, Chunk(2, 4, 9216), True),
        ({"nodes": 2, "tasks": 4, "cpus": 4, "min_cpus": 2}, Chunk(2, 2), True),
        ({"nodes": 2, "tasks": 9, "cpus": 9, "whole_nodes": True}, Chunk(2, 5), True),
        ({"min_cpus": 3}, Chunk(1, 3), True),
        ({"per_node": "gres:gpu:2"}, Chunk(1, 1, gpus=2), True),
        ({"per_node": "gres/gpu:a100:2"}, Chunk(1, 1, gpus=2, gpu_type="a100"), True),
        ({"nodes": 2, "tasks": 4, "cpus": 4, "per_task": "cpu=1,gres/gpu=1"}, Chunk(4, 1, gpus=1), False),
        ({"nodes": 2, "tasks": 2, "cpus": 2, "per_job": "gres/gpu:v100=3"}, Chunk(2, 1, gpus=2, gpu_type="v100"), True),
        ({"per_socket": "gpu:1"}, Chunk(1, 1, gpus=1), True),
        ({"per_node": "gres/nic:2"}, Chunk(1, 1, features=(frozenset({"gres/nic"}),)), True),
        ({"features": "a|b"}, Chunk(1, 1, features=(frozenset({"a"}), frozenset({"b"}))), True),
    ],
)
def test_requests(terms: dict[str, object], chunk: Chunk, apart: bool) -> None:
    request = request_of(**terms)
    assert (request.chunks, request.apart) == ((chunk,), apart)


def test_the_terms_that_select_nodes() -> None:
    request = request_of(
        partitions="batch,long", hosts="node[1-2]", excluded="node3", reservation="maint", licences="mat:2,sim@db"
    )
    assert request.partitions == ("batch", "long")
    assert (request.hosts, request.excluded) == ({"node1", "node2"}, {"node3"})
    assert (request.reservation, request.qos) == ("maint", "normal")
    assert request.licences == (("mat", 2), ("sim@db", 1))
    assert request_of(licences="a:1|b:1").licences == ()


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"features": "a&&b"}, "'a&&b' is not a constraint on features"),
        ({"per_node": "gres/gpu:a100:1,gres/gpu:v100:1"}, "it requests GPUs of several types: a100, v100"),
    ],
)
def test_a_request_that_is_not_understood_says_why(terms: dict[str, object], why: str) -> None:
    assert parse_request(PLAIN._replace(**terms)) == (None, why)  # type: ignore[arg-type]


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.integers(-1, 99), st.integers(-1, 99))
def test_no_text_breaks_the_parser(features: str, tres: str, licences: str, nodes: int, tasks: int) -> None:
    terms = PLAIN._replace(features=features, per_node=tres, per_job=tres, licences=licences, nodes=nodes, tasks=tasks)
    request, problem = parse_request(terms)
    assert (request is None) == bool(problem)


@pytest.mark.parametrize(
    ("gres", "gpus", "others"),
    [
        ("(null)", (), ()),
        ("gpu:4", (("", 4),), ()),
        ("gpu:a100:4(S:0-1),gpu:v100:2(S:0,1),nic:mlx:1", (("a100", 4), ("v100", 2)), ("gres/nic",)),
        ("gpu:tesla:2(IDX:0-1),shard:tesla:8", (("tesla", 2),), ("gres/shard",)),
    ],
)
def test_gres_of_nodes(gres: str, gpus: tuple[tuple[str, int], ...], others: tuple[str, ...]) -> None:
    assert parse_node_gres(gres) == (gpus, others)


def test_the_total_shows_whether_memory_counts_per_cpu() -> None:
    assert is_per_cpu(100, "cpu=4,mem=400M,node=1,billing=4", 4)
    assert not is_per_cpu(100, "cpu=4,mem=100M,node=1,billing=4", 4)
    assert not is_per_cpu(9216, "cpu=2,mem=18G,node=2,billing=2", 2)
    assert not is_per_cpu(0, "cpu=4,mem=1000M,node=1", 4)
    assert not is_per_cpu(100, "(null)", 4)


@pytest.mark.parametrize(
    ("tasks", "count", "limit"),
    [("1-9%2", 9, 2), ("5,7,11-20", 12, 0), ("0-4999:7", 715, 0), ("3", 1, 0), ("", 1, 0), ("1-4,8,...", 5, 0)],
)
def test_tasks_of_an_array(tasks: str, count: int, limit: int) -> None:
    assert (count_tasks(tasks), throttle(tasks)) == (count, limit)

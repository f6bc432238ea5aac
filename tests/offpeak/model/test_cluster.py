"""The cluster model: which pools a request could use, why it fits nowhere, and which requests compete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, ClusterNode, NodeType, Partition, Pool, competition_groups, pools_of
from offpeak.model.request import Chunk, Request, parse_features

pytestmark = pytest.mark.quick

THIN = NodeType(64, 256 * 1024)
FAT = NodeType(64, 1024 * 1024, features=frozenset({"fat", "ib"}))
GPU = NodeType(48, 512 * 1024, gpus=(("a100", 4),), features=frozenset({"ib"}))
CLUSTER = Cluster(
    (
        Pool(THIN, frozenset({"cpu"}), 10, frozenset(f"t{i}" for i in range(10))),
        Pool(FAT, frozenset({"cpu", "fat"}), 2, frozenset({"f0", "f1"})),
        Pool(GPU, frozenset({"gpu"}), 4, frozenset(f"g{i}" for i in range(4))),
    ),
    {name: Partition(name) for name in ("cpu", "fat", "gpu", "empty")},
    {"r1": frozenset({"f1"})},
)


def request(partition: str, *chunks: Chunk, **terms: object) -> Request:
    return Request((partition,), chunks or (Chunk(1),), **terms)


@pytest.mark.parametrize(
    ("asks", "pools"),
    [
        (request("cpu", Chunk(1, 1, 8192)), (0, 1)),
        (request("cpu", Chunk(1, 1, 300 * 1024)), (1,)),
        (request("cpu", Chunk(12, 64)), (0, 1)),
        (request("cpu", Chunk(13, 64)), ()),
        (request("cpu", Chunk(13, 32), apart=False), (0, 1)),
        (request("gpu", Chunk(1, 1, gpus=4)), (2,)),
        (request("gpu", Chunk(1, 1, gpus=5)), ()),
        (request("gpu", Chunk(1, 1, gpus=1, gpu_type="v100")), ()),
        (Request(("cpu", "gpu"), (Chunk(1, features=parse_features("ib")),)), (1, 2)),
        (Request((), (Chunk(1),)), (0, 1, 2)),
        (request("cpu", hosts=frozenset({"t3"})), (0,)),
        (request("cpu", excluded=frozenset(f"t{i}" for i in range(10))), (1,)),
        (request("cpu", reservation="r1"), (1,)),
    ],
)
def test_candidates_are_the_pools_that_could_run_a_part(asks: Request, pools: tuple[int, ...]) -> None:
    assert CLUSTER.candidates(asks) == pools


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        (request("cpu", Chunk(13, 64)), "partition cpu has 12 of 13 nodes with 64 cores"),
        (request("gpu", Chunk(1, 1, gpus=5)), "no node of partition gpu has 1 core, 5 GPUs"),
        (request("nowhere"), "there is no partition nowhere"),
        (request("empty"), "partition empty has no node for it"),
        (request("gpu", reservation="r1"), "reservation r1 in partition gpu has no node for it"),
        (request("cpu"), ""),
    ],
)
def test_misfit_names_the_reason(asks: Request, why: str) -> None:
    assert CLUSTER.misfit(asks) == why


def test_misfit_shows_much_memory_in_gib() -> None:
    assert "8 cores, 2,000 GiB" in CLUSTER.misfit(Request((), (Chunk(1, 8, 2_048_000),)))
    assert "8 cores, 1.5 GiB" in CLUSTER.misfit(Request((), (Chunk(9999, 8, 1536),)))


def test_parts_per_node_are_those_of_each_chunk_and_pool() -> None:
    asks = Request(("cpu",), (Chunk(3, 16), Chunk(1, features=parse_features("fat"))))
    assert CLUSTER.parts_per_node(asks) == ((3, 3, 0), (0, 1, 0))


def test_nodes_are_shared_if_a_partition_of_the_request_shares_them() -> None:
    pool = Pool(THIN, frozenset({"own", "common"}), 1)
    cluster = Cluster((pool,), {"own": Partition("own"), "common": Partition("common", shared=True)})
    assert cluster.takes_whole_nodes(Request(("own",), (Chunk(1),)), pool)
    assert not cluster.takes_whole_nodes(Request(("own", "common"), (Chunk(1),)), pool)
    assert not cluster.takes_whole_nodes(Request((), (Chunk(1),)), pool)
    assert cluster.takes_whole_nodes(Request(("common",), (Chunk(1),), whole_nodes=True), pool)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (GPU, "48 cores, 512 GiB, 4 a100 GPUs"),
        (NodeType(1, 1536, (("", 1), ("mig", 2))), "1 core, 1.5 GiB, 1 GPU, 2 mig GPUs"),
        (NodeType(8, 512), "8 cores, 512 MiB"),
        (NodeType(8, 1_055_000), "8 cores, 1,030 GiB"),
        (NodeType(0), "unknown equipment"),
    ],
)
def test_equipment_is_cores_memory_and_gpus(kind: NodeType, text: str) -> None:
    assert kind.equipment == text


def test_a_partition_that_only_a_pool_names_has_the_defaults() -> None:
    pool = Pool(THIN, frozenset({"own", "common"}), 1)
    cluster = Cluster((pool,), {"common": Partition("common", shared=True)})
    assert cluster.partitions == {"common": Partition("common", shared=True), "own": Partition("own")}
    assert cluster.takes_whole_nodes(Request(("own",), (Chunk(1),)), pool)
    assert cluster.candidates(Request(("own",), (Chunk(1),))) == (0,)
    assert Cluster((pool,)).takes_whole_nodes(Request((), (Chunk(1),)), pool)


def test_nodes_of_unknown_equipment_fit_every_request() -> None:
    unknown = Cluster((Pool(NodeType(0), frozenset(), 3),))
    assert unknown.candidates(Request((), (Chunk(3, 999, 10**9),))) == (0,)


@pytest.mark.parametrize(
    ("expression", "alternatives"),
    [
        ("", []),
        ("ib", [{"ib"}]),
        ("ib&fat", [{"fat", "ib"}]),
        ("ib,fat", [{"fat", "ib"}]),
        ("[rack1|rack2]", [{"rack1"}, {"rack2"}]),
        ("(a&b)|c*4", [{"a", "b"}, {"c"}]),
        ("a&[b*2|c]", [{"a", "b"}, {"a", "c"}]),
    ],
)
def test_constraints_become_alternatives(expression: str, alternatives: list[set[str]]) -> None:
    assert [set(found) for found in parse_features(expression)] == alternatives


@pytest.mark.parametrize("expression", ["a&", "(a", "a)", "|a", "a b", "a&(b|c]"])
def test_bad_constraints_are_refused(expression: str) -> None:
    with pytest.raises(BadInput, match="not a constraint on features"):
        parse_features(expression)


def test_shares_are_those_of_the_scarcest_resource() -> None:
    assert THIN.share(Chunk(1, 16, 8192)) == 0.25
    assert THIN.share(Chunk(1, 1, 128 * 1024)) == 0.5
    assert GPU.share(Chunk(1, 1, gpus=2)) == 0.5
    assert THIN.share(Chunk(1, 1, 10**9)) == 1


def test_pools_join_nodes_of_equal_type_and_partitions() -> None:
    cpu, both = frozenset({"cpu"}), frozenset({"cpu", "fat"})
    pools = pools_of(
        [
            ClusterNode("a", THIN, cpu),
            ClusterNode("b", THIN, both),
            ClusterNode("c", THIN, cpu),
            ClusterNode("d", FAT, cpu),
        ]
    )
    assert [(pool.nodes, sorted(pool.names)) for pool in pools] == [(2, ["a", "c"]), (1, ["b"]), (1, ["d"])]


def test_groups_follow_chains_of_shared_pools() -> None:
    assert competition_groups({"a": (0, 1), "b": (1, 2), "c": (3,), "d": (), "e": (2,)}) == {
        "a": 0,
        "b": 0,
        "c": 3,
        "e": 0,
    }


@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True).map(sorted), max_size=12))
def test_requests_of_one_pool_are_always_in_one_group(candidates: list[list[int]]) -> None:
    groups = competition_groups(dict(enumerate(candidates)))
    for one, pools in enumerate(candidates):
        for other, others in enumerate(candidates):
            if set(pools) & set(others):
                assert groups[one] == groups[other]


def test_a_part_that_names_its_host_fits_that_node_only() -> None:
    small, large = (
        Pool(NodeType(cores), frozenset({"batch"}), 1, frozenset({name})) for cores, name in ((4, "n1"), (8, "n2"))
    )
    cluster = Cluster((small, large), {"batch": Partition("batch")})
    assert cluster.candidates(Request(("batch",), (Chunk(1, host="n2"),))) == (1,)
    assert cluster.misfit(Request(("batch",), (Chunk(1, 8, host="n1"),))) == (
        "no node of partition batch has 8 cores, the name n1"
    )


def test_a_part_accepts_nodes_with_all_features_of_an_alternative() -> None:
    chunk = Chunk(1, features=(frozenset({"a", "b"}), frozenset({"c"})))
    assert [chunk.accepts(has) for has in (("a",), ("a", "b"), ["c", "d"], ())] == [False, True, True, False]
    assert Chunk(1).accepts(())

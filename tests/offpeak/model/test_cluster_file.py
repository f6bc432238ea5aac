"""Clusters in TOML: the parsed cluster, errors with the line, and the way back to TOML."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import BadInput
from offpeak.model.cluster import Cluster, NodeType, Partition, Pool
from offpeak.model.cluster_file import cluster_text, parse_cluster, read_cluster
from offpeak.model.limits import (
    Allowance,
    PreemptionRules,
    PreemptMode,
    PriorityOrder,
    PriorityWeights,
    Qos,
    ShareAccount,
    SitePriority,
)

ALPS = """
qos = ["normal", "high"]

[node_types.thin]
nodes = "t[01-10]"
cores = 64
memory = "256GiB"
features = ["ib"]
power_class = "server"
enclosure = "rack1"

[node_types.gpu]
count = 4
cores = 48
memory = "512GiB"
gpus = { a100 = 4 }

[partitions.cpu]
node_types = ["thin"]
shared = true
limit = "24h"

[partitions.all]
node_types = ["thin", "gpu"]
priority_tier = 2
most_nodes = 8
preempts = true

[reservations]
maint = "t[01-02]"

[licences]
matlab = 10
"""


def test_a_file_describes_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "alps.toml"
    file.write_text(ALPS)
    thin = NodeType(64, 256 * 1024, features=frozenset({"ib"}), power_class="server", enclosure="rack1")
    assert read_cluster(file) == Cluster(
        (
            Pool(thin, frozenset({"cpu", "all"}), 10, frozenset(f"t{i:02}" for i in range(1, 11))),
            Pool(NodeType(48, 512 * 1024, (("a100", 4),)), frozenset({"all"}), 4),
        ),
        {
            "cpu": Partition("cpu", shared=True, limit_s=86_400),
            "all": Partition("all", priority_tier=2, most_nodes=8, preempts=True),
        },
        {"maint": frozenset({"t01", "t02"})},
        {"matlab": 10},
        {"normal": Qos("normal"), "high": Qos("high")},
    )


def test_the_example_of_the_docs_is_read(repository: Path) -> None:
    cluster = read_cluster(repository / "docs" / "examples" / "cluster.toml")
    assert (cluster.nodes, list(cluster.partitions)) == (128, ["all", "gpu"])


def test_a_file_of_one_node_type_suffices() -> None:
    assert parse_cluster(b"[node_types.all]\ncount = 3\ncores = 8\ngpus = 2\n", "a.toml") == Cluster(
        (Pool(NodeType(8, gpus=(("", 2),)), frozenset(), 3),)
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("count = 4", "count = -4", "node_types.gpu.count: -4 is out of range", "the range is 1 to"),
        ("count = 4", 'count = "4"', "node_types.gpu.count: '4' is not a whole number", "without quotes"),
        ("count = 4\n", "", "node_types.gpu: count is missing", "add count = 100, or the names of its nodes"),
        ('nodes = "t', 'count = 9\nnodes = "t', "node_types.thin.count: is 9, but nodes has 10", "leave count out"),
        ("cores = 48\n", "", "node_types.gpu: cores is missing", "add cores = 64"),
        ("cores = 48", "cpus = 48", "node_types.gpu.cpus: is not a key of a cluster", "did you mean gpus?"),
        ("count = 4", 'nodes = "t[09-12]"', "node_types.gpu: 't09' is a node of 'thin' too", "a node has one type"),
        ('"512GiB"', "512", "node_types.gpu.memory: 512 is not text", 'memory = "256GiB"'),
        ('"512GiB"', '"512GB"', "node_types.gpu.memory: unknown unit 'GB'", "GiB"),
        ("a100 = 4", "a100 = 0", "node_types.gpu.gpus.a100: 0 is out of range", "the range is 1 to"),
        ('["thin", "gpu"]', "[]", "partitions.all.node_types: has no node type", "known: gpu, thin"),
        ('["thin", "gpu"]', '["thim"]', "partitions.all.node_types: 'thim' is not a node type", "did you mean thin?"),
        ('["thin", "gpu"]', '["gpu", "gpu"]', "partitions.all.node_types: 'gpu' is given twice", "keep one"),
        ('["thin", "gpu"]', '"gpu"', "partitions.all.node_types: 'gpu' is not a list", '["thin", "fat"]'),
        ('node_types = ["thin"]\n', "", "partitions.cpu: node_types is missing", 'add node_types = ["thin", "fat"]'),
        ("[partitions.all]", "[partitions.cpu]", "('partitions', 'cpu') twice", "rename one of the two"),
        ("shared = true", "shared = 1", "partitions.cpu.shared: 1 is not true or false", "without quotes"),
        ('"24h"', '"24"', "partitions.cpu.limit: '24' has no unit", "30min"),
        ('"t[01-02]"', '"t[01-20]"', "reservations.maint: 't11' is not a node", "`nodes`"),
        ("matlab = 10", "matlab = -1", "licences.matlab: -1 is out of range", "the range is 0 to"),
        ("[partitions.cpu]", "[partitions]\ncpu = 3\n[other]", "alps.toml: other: is not a key of a cluster", "known:"),
    ],
)
def test_bad_input_names_the_place_and_the_remedy(old: str, new: str, message: str, hint: str) -> None:
    assert old in ALPS
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        parse_cluster(ALPS.replace(old, new, 1).encode(), "alps.toml")
    assert str(caught.value).startswith("alps.toml: ")
    assert str(caught.value).count("alps.toml") == 1
    assert hint in caught.value.hint


LIMITED = (
    ALPS.replace('qos = ["normal", "high"]', "").replace("shared = true", 'shared = true\nqos = "cpu"')
    + """
[qos.cpu]
most_nodes = 4

[qos.high]
priority = 100
preempts_qos = ["cpu"]
user_jobs = 2
user_gpus = 0
preempt_mode = "cancel"
exempt = "5min"

[preemption]
exempt = "10min"
youngest_first = true
"""
)


def test_qos_have_limits() -> None:
    cluster = parse_cluster(LIMITED.encode(), "alps.toml")
    assert cluster.qos == {
        "cpu": Qos("cpu", Allowance(nodes=4)),
        "high": Qos(
            "high",
            per_user=Allowance(jobs=2, gpus=0),
            priority=100,
            preempts=frozenset({"cpu"}),
            preempt_mode=PreemptMode.CANCEL,
            exempt_s=300,
        ),
    }
    assert cluster.partitions["cpu"].qos == "cpu"
    assert cluster.preemption == PreemptionRules(600, youngest_first=True)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ('qos = "cpu"', 'qos = "cpus"', "partitions.cpu.qos: 'cpus' is no QOS of the file", "did you mean cpu?"),
        ('qos = "cpu"', "qos = 3", "partitions.cpu.qos: 3 is not text", "in quotes"),
        ('["cpu"]', '["low"]', "qos.high.preempts_qos: 'low' is no QOS of the file", "known: cpu, high"),
        (
            "most_nodes = 4",
            'preempts_qos = ["high"]\npreempt_mode = "requeue"',
            "qos: jobs of cpu, high may stop each other",
            "take one of them out of preempts_qos",
        ),
        ("user_jobs = 2", "user_jobs = -2", "qos.high.user_jobs: -2 is out of range", "the range is 0 to"),
        (
            '"cancel"',
            '"stop"',
            "qos.high.preempt_mode: 'stop' is not a known mode of preemption",
            "known: cancel, off, requeue, suspend",
        ),
        ('"5min"', '"5 parsecs"', "qos.high.exempt: unknown unit 'parsecs'", "known: d, h, min, s"),
        ("first = true", "first = 1", "preemption.youngest_first: 1 is not true or false", "without quotes"),
        ("youngest_first", "oldest_first", "preemption.oldest_first: is not a key of", "did you mean youngest_first?"),
        ("user_jobs = 2", "users = 2", "qos.high.users: is not a key of a cluster", "did you mean user_"),
    ],
)
def test_bad_limits_name_the_place_and_the_remedy(old: str, new: str, message: str, hint: str) -> None:
    assert old in LIMITED
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        parse_cluster(LIMITED.replace(old, new, 1).encode(), "alps.toml")
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "a.toml: node_types is missing"),
        (b"[node_types]", "a.toml: node_types: names no node type"),
        (b"node_types = 3", "a.toml: node_types: is not a table"),
        (b"\xff", "a.toml: is not UTF-8 text"),
        (b"[[", "a.toml: "),
    ],
)
def test_a_file_that_describes_nothing(text: bytes, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_cluster(text, "a.toml")
    assert str(caught.value).startswith(message)
    assert caught.value.hint
    if message.endswith(("is missing", "names no node type")):
        assert caught.value.hint == "write [node_types.NAME], and below it count and cores"


NAMES = st.text(min_size=1, max_size=8)
PARTITIONS = st.builds(
    Partition,
    NAMES,
    shared=st.booleans(),
    priority_tier=st.integers(0, 9),
    most_nodes=st.none() | st.integers(1, 99),
    limit_s=st.none() | st.integers(0, 10**6),
    preempts=st.booleans(),
    qos=st.just(""),
    preempt_mode=st.sampled_from(PreemptMode),
    job_factor=st.integers(0, 9),
    # The jobs of a log name their partition.
    is_default=st.just(False),
)
AMOUNTS = st.integers(0, 99)
ALLOWANCES = st.builds(Allowance, *[st.none() | AMOUNTS] * 4)
TYPES = st.builds(
    NodeType,
    st.integers(0, 256),
    st.integers(0, 10**7),
    st.dictionaries(st.text(max_size=5), st.integers(1, 16), max_size=3).map(lambda gpus: tuple(gpus.items())),
    st.frozensets(NAMES, max_size=3),
    st.text(max_size=5),
    st.text(max_size=5),
)


SHARES = st.none() | st.integers(0, 2**31)
USERS = st.dictionaries(st.text(max_size=5), SHARES, max_size=3).map(lambda users: tuple(users.items()))
WEIGHTS = st.integers(0, 2**32 - 1)
FACTORS = st.builds(
    PriorityWeights,
    *(WEIGHTS for _ in range(5)),
    max_age_s=st.integers(1, 10**6),
    favor_small=st.booleans(),
    small_relative_to_time=st.booleans(),
    half_life_s=st.integers(0, 10**6),
    calc_period_s=st.integers(1, 10**6),
    is_fair_tree=st.booleans(),
    dampening=st.integers(1, 10**6).map(float),
)


@st.composite
def priorities(draw: st.DrawFn) -> SitePriority:
    order = draw(st.sampled_from(PriorityOrder))
    not_modelled = tuple(draw(st.lists(st.text(max_size=5), max_size=2)))
    if order is not PriorityOrder.MULTIFACTOR:
        return SitePriority(order, not_modelled=not_modelled)
    names = draw(st.lists(st.text(min_size=1, max_size=5), max_size=3, unique=True))
    above = [draw(st.sampled_from(["", *names[:number]])) for number in range(len(names))]
    accounts = tuple(
        ShareAccount(name, parent, draw(SHARES), draw(USERS)) for name, parent in zip(names, above, strict=True)
    )
    return SitePriority(order, draw(FACTORS), accounts, not_modelled)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    partitions = draw(st.lists(PARTITIONS, max_size=4, unique_by=lambda each: each.name))
    pools = []
    for number, node_type in enumerate(draw(st.lists(TYPES, min_size=1, max_size=5))):
        members = (
            draw(st.frozensets(st.sampled_from([each.name for each in partitions]))) if partitions else frozenset()
        )
        nodes = draw(st.integers(1, 20))
        prefix = draw(st.sampled_from(["n", "gpu-", "9x"]))
        names = frozenset(f"{prefix}{100 * number + i}" for i in range(nodes)) if draw(st.booleans()) else frozenset()
        pools.append(Pool(node_type, members, nodes, names))
    used = frozenset().union(*(pool.partitions for pool in pools))
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    of_qos = st.builds(
        Qos,
        st.just(""),
        ALLOWANCES,
        ALLOWANCES,
        AMOUNTS,
        preempt_mode=st.sampled_from(PreemptMode),
        exempt_s=st.none() | st.integers(0, 10**6),
    )
    qos = {
        name: draw(of_qos)._replace(name=name, preempts=frozenset(names[: draw(st.integers(0, number))]))
        for number, name in enumerate(names)
    }
    if names:
        of_partition = st.sampled_from(["", *names])
        partitions = [each._replace(qos=draw(of_partition)) for each in partitions]
    named = sorted(frozenset().union(*(pool.names for pool in pools)))
    reserved = (
        draw(st.dictionaries(NAMES, st.frozensets(st.sampled_from(named), min_size=1), max_size=2)) if named else {}
    )
    return Cluster(
        tuple(pools),
        {each.name: each for each in partitions if each.name in used},
        reserved,
        draw(st.dictionaries(NAMES, st.integers(1, 99), max_size=2)),
        qos,
        priority=draw(st.none() | priorities()),
        preemption=draw(st.builds(PreemptionRules, st.integers(0, 10**6), st.booleans())),
    )


@given(clusters())
def test_written_cluster_is_read_back(cluster: Cluster) -> None:
    text = cluster_text(cluster, "the cluster of a test")
    assert text.startswith("# the cluster of a test\n")
    assert parse_cluster(text.encode(), "a.toml") == cluster


def test_a_partition_without_nodes_is_named_in_the_file() -> None:
    text = cluster_text(
        Cluster((Pool(NodeType(8), frozenset({"a"}), 2),), {each: Partition(each) for each in ("a", "b")})
    )
    assert '# partition "b" has no nodes and is left out' in text
    assert list(parse_cluster(text.encode(), "a.toml").partitions) == ["a"]


ORDERED = (
    ALPS
    + """
[priority]
age = 1000
fair_share = 100000
max_age = "1d"
half_life = "0s"
fair_tree = false
dampening = 3

[priority.accounts.lasers]
parent = "physics"
users = { anna = 1 }

[priority.accounts.physics]
shares = 30
users = { anna = 3, bob = "parent" }
"""
)


def test_the_order_of_jobs() -> None:
    weights = PriorityWeights(1000, 100_000, max_age_s=86_400, half_life_s=0, is_fair_tree=False, dampening=3.0)
    accounts = (
        ShareAccount("lasers", "physics", 1, (("anna", 1),)),
        ShareAccount("physics", "", 30, (("anna", 3), ("bob", None))),
    )
    cluster = parse_cluster(ORDERED.encode(), "alps.toml")
    assert cluster.priority == SitePriority(PriorityOrder.MULTIFACTOR, weights, accounts)
    recorded = parse_cluster((ALPS + '[priority]\norder = "recorded"\n').encode(), "alps.toml")
    assert recorded.priority == SitePriority(PriorityOrder.RECORDED)
    assert parse_cluster(ALPS.encode(), "alps.toml").priority is None


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("age = 1000\n", "ages = 1000\n", "priority.ages: is not a key of a cluster", "did you mean age?"),
        ("age = 1000\n", "age = -1\n", "priority.age: -1 is out of range", "the range is 0 to 4294967295"),
        ("age = 1000\n", 'order = "fifo"\n', "priority.order: 'fifo' is not a known order of jobs", "known: "),
        ("age = 1000\n", 'order = "recorded"\n', "fair_share: is not a part of the order 'recorded'", "leave it out"),
        ('"1d"', '"0s"', "priority.max_age: is 0", 'leave it out, or write a time such as "7d"'),
        ("dampening = 3", "dampening = 0", "priority.dampening: 0 is out of range", "the range is 1 to"),
        ('"physics"', '"physic"', "priority.accounts.lasers: parent 'physic' is not an account", "mean physics?"),
        ("shares = 30", 'parent = "lasers"', "priority.accounts.lasers: stands below itself", "take out one parent"),
        (
            "shares = 30",
            'shares = "30"',
            "priority.accounts.physics.shares: '30' is not a whole number",
            "without quotes",
        ),
        ("{ anna = 1 }", "3", "priority.accounts.lasers.users: is not a table", "users = { anna = 3 }"),
    ],
)
def test_bad_input_to_the_order_names_the_place(old: str, new: str, message: str, hint: str) -> None:
    assert old in ORDERED
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        parse_cluster(ORDERED.replace(old, new, 1).encode(), "alps.toml")
    assert hint in caught.value.hint


def test_an_order_that_is_no_table() -> None:
    with pytest.raises(BadInput, match=r"alps.toml: priority: is not a table") as caught:
        parse_cluster(('priority = "recorded"\n' + ALPS).encode(), "alps.toml")
    assert caught.value.hint.startswith("write [priority], and below it order, ")

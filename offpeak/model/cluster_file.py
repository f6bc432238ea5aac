"""Reads and writes TOML files that describe a cluster, for logs that do not: node types, and partitions over them.

A file has a table [node_types.NAME] for the nodes of one equipment in the same partitions, and a table
[partitions.NAME] for each partition; optionally tables [qos.NAME], or a list `qos` of names, [reservations],
[licences], [priority] for the order of jobs, and [preemption].
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Annotated, ClassVar

import tomlkit
from pydantic import BeforeValidator, Field

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.machines.node_sets import MOST_NODES, expand, fold
from offpeak.model.cluster import UNKNOWN, Cluster, NodeType, Partition, Pool
from offpeak.model.description import (
    Description,
    Flag,
    TableModel,
    Text,
    WrongEntry,
    read_by,
    refuse,
    text_by,
)
from offpeak.model.limits import (
    DEFAULT_PREEMPTION,
    Allowance,
    PreemptionRules,
    PreemptMode,
    PriorityOrder,
    PriorityWeights,
    Qos,
    ShareAccount,
    SitePriority,
)
from offpeak.model.units import parse_duration_s, parse_memory_mib
from offpeak.settings.kinds import whole_number
from offpeak.text import did_you_mean

EXAMPLES = {
    "count": "100",
    "nodes": '"n[001-100]"',
    "cores": "64",
    "memory": '"256GiB"',
    "gpus": "{ a100 = 4 }",
    "features": '["ib", "rome"]',
    "node_types": '["thin", "fat"]',
    "preempts_qos": '["low"]',
    "not_modelled": '["PriorityWeightTRES"]',
    "users": "{ anna = 3 }",
}

MOST = 10**9
"""No count of cores, GPUs or licences is larger."""

WEIGHT = whole_number(0, 2**32 - 1)
"""A weight or a number of shares: Slurm keeps them in 32 bits."""

USES_PARENT = "parent"
"""Shares of an account or a user that count as part of what stands above them, as in Slurm."""

_WEIGHT_OF = {
    "max_age": "max_age_s",
    "half_life": "half_life_s",
    "calc_period": "calc_period_s",
    "fair_tree": "is_fair_tree",
}
"""The names of keys of [priority] in PriorityWeights, where these differ."""

Count = Annotated[int, read_by(whole_number(1, MOST).read)]
Amount = Annotated[int, read_by(whole_number(0, MOST).read)]
Weight = Annotated[int, read_by(WEIGHT.read)]
NodeNames = Annotated[tuple[str, ...], text_by(expand)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Seconds = Annotated[int, text_by(parse_duration_s)]


def _one_of(known: type[StrEnum], what: str) -> BeforeValidator:
    def read(text: str) -> StrEnum:
        try:
            return known(text)
        except ValueError:
            raise BadInput(f"{text!r} is not a known {what}", hint=did_you_mean(text, list(known))) from None

    return text_by(read)


def _shares(written: object) -> int | None:
    return None if written == USES_PARENT else WEIGHT.read(written)


def _period_s(text: str) -> int:
    return parse_duration_s(text) or refuse("is 0", hint='leave it out, or write a time such as "7d"')


Mode = Annotated[PreemptMode, _one_of(PreemptMode, "mode of preemption")]
Period = Annotated[int, text_by(_period_s)]
Shares = Annotated[int | None, read_by(_shares)]
Gpus = Annotated[dict[str, Count], read_by(lambda gpus: {"": gpus} if isinstance(gpus, int) else gpus)]


class NodeTypeTable(TableModel):
    """[node_types.NAME]: nodes of one equipment in the same partitions."""

    count: Annotated[int, read_by(whole_number(1, MOST_NODES).read)] | None = None
    nodes: NodeNames = ()
    cores: Amount
    memory: Annotated[int, text_by(parse_memory_mib)] = UNKNOWN
    gpus: Gpus = Field(default_factory=dict)
    features: Texts = ()
    power_class: Text = ""
    enclosure: Text = ""


class PartitionTable(TableModel):
    """[partitions.NAME]."""

    node_types: Texts
    shared: Flag = False
    priority_tier: Amount = 1
    most_nodes: Count | None = None
    limit: Seconds | None = None
    preempts: Flag = False
    preempt_mode: Mode = PreemptMode.REQUEUE
    qos: Text = ""
    job_factor: Amount = 1


class QosTable(TableModel):
    """[qos.NAME]: limits of a QOS, and the QOS that it preempts."""

    most_jobs: Amount | None = None
    most_nodes: Amount | None = None
    most_cores: Amount | None = None
    most_gpus: Amount | None = None
    user_jobs: Amount | None = None
    user_nodes: Amount | None = None
    user_cores: Amount | None = None
    user_gpus: Amount | None = None
    priority: Amount = 0
    preempts_qos: Texts = ()
    preempt_mode: Mode = PreemptMode.REQUEUE
    exempt: Seconds | None = None


def _qos_tables(written: object) -> object:
    """Return the tables of a list of names, which have no limits."""
    if not isinstance(written, list):
        return written
    if not all(isinstance(name, str) for name in written):
        refuse(f"{written!r} is not a list of names", hint='write qos = ["normal", "high"]')
    return {name: {} for name in written}


class PreemptionTable(TableModel):
    """[preemption]."""

    exempt: Seconds = 0
    youngest_first: Flag = False


class AccountTable(TableModel):
    """[priority.accounts.NAME]."""

    parent: Text = ""
    shares: Shares = 1
    users: dict[str, Shares] = Field(default_factory=dict)


class PriorityTable(TableModel):
    """[priority]: the order of jobs."""

    order: Annotated[PriorityOrder, _one_of(PriorityOrder, "order of jobs")] = PriorityOrder.MULTIFACTOR
    not_modelled: Texts = ()
    age: Weight = 0
    fair_share: Weight = 0
    job_size: Weight = 0
    partition: Weight = 0
    qos: Weight = 0
    dampening: Count = 1
    max_age: Period = 0
    half_life: Seconds = 0
    calc_period: Period = 0
    favor_small: Flag = False
    small_relative_to_time: Flag = False
    fair_tree: Flag = True
    accounts: dict[str, AccountTable] = Field(default_factory=dict)


class ClusterFile(Description):
    """The whole file."""

    noun = "a cluster"
    examples: ClassVar = EXAMPLES

    node_types: dict[str, NodeTypeTable] = Field(default_factory=dict)
    partitions: dict[str, PartitionTable] = Field(default_factory=dict)
    qos: Annotated[dict[str, QosTable], read_by(_qos_tables)] = Field(default_factory=dict)
    reservations: dict[str, NodeNames] = Field(default_factory=dict)
    licences: dict[str, Amount] = Field(default_factory=dict)
    priority: PriorityTable | None = None
    preemption: PreemptionTable = PreemptionTable()


def read_cluster(path: Path) -> Cluster:
    """Return the cluster that a TOML file describes. Raises BadInput with the file, the key and a hint."""
    return parse_cluster(read_bytes(path, BadInput), str(path))


def parse_cluster(text: bytes, file: str) -> Cluster:
    """Return the cluster that the text describes; `file` is where it comes from, for messages."""
    return ClusterFile.parse(text, file, _cluster)


def _cluster(tables: ClusterFile) -> Cluster:
    types = tables.node_types
    if not types:
        what = "node_types: names no node type" if "node_types" in tables.model_fields_set else "node_types is missing"
        raise WrongEntry(what, hint="write [node_types.NAME], and below it count and cores")
    qos = {name: _qos(name, tables) for name in tables.qos}
    partitions = {name: _partition(name, table, types, qos) for name, table in tables.partitions.items()}
    pools = []
    type_of: dict[str, str] = {}
    for name, table in types.items():
        members = frozenset(each for each, partition in tables.partitions.items() if name in partition.node_types)
        pool = _pool(name, table, members)
        # Which equipment a node of two node types has would be unknown.
        if twice := pool.names & type_of.keys():
            node = min(twice)
            what = f"{node!r} is a node of {type_of[node]!r} too"
            raise WrongEntry(what, "node_types", name, hint="a node has one type: take it out of one of the two")
        type_of |= dict.fromkeys(pool.names, name)
        pools.append(pool)
    for name, nodes in tables.reservations.items():
        if absent := set(nodes) - type_of.keys():
            hint = "reserve nodes that a node type names in `nodes`"
            raise WrongEntry(f"{min(absent)!r} is not a node", "reservations", name, hint=hint)
    cluster = Cluster(
        tuple(pools),
        partitions,
        {name: frozenset(nodes) for name, nodes in tables.reservations.items()},
        tables.licences,
        qos,
        priority=None if tables.priority is None else _priority(tables.priority),
        preemption=PreemptionRules(tables.preemption.exempt, tables.preemption.youngest_first),
    )
    if names := cluster.qos_in_circles:
        what = f"jobs of {', '.join(names)} may stop each other"
        raise WrongEntry(what, "qos", hint="take one of them out of preempts_qos")
    return cluster


def _qos(name: str, tables: ClusterFile) -> Qos:
    table = tables.qos[name]
    for preempted in table.preempts_qos:
        if preempted not in tables.qos:
            hint = did_you_mean(preempted, tables.qos)
            raise WrongEntry(f"{preempted!r} is no QOS of the file", "qos", name, "preempts_qos", hint=hint)
    return Qos(
        name,
        group=Allowance(*(getattr(table, f"most_{resource}") for resource in Allowance._fields)),
        per_user=Allowance(*(getattr(table, f"user_{resource}") for resource in Allowance._fields)),
        priority=table.priority,
        preempts=frozenset(table.preempts_qos),
        preempt_mode=table.preempt_mode,
        exempt_s=table.exempt,
    )


def _priority(table: PriorityTable) -> SitePriority:
    """Return the order of jobs. Raises WrongEntry for weights of an order that has none, and for circular accounts."""
    given = table.model_fields_set - {"order", "not_modelled"}
    if table.order is not PriorityOrder.MULTIFACTOR and given:
        first = next(key for key in PriorityTable.model_fields if key in given)
        hint = f'leave it out, or write order = "{PriorityOrder.MULTIFACTOR}"'
        raise WrongEntry(f"is not a part of the order {table.order.value!r}", "priority", first, hint=hint)
    accounts = table.accounts
    for name, account in accounts.items():
        above = account.parent
        if above and above not in accounts:
            what = f"parent {above!r} is not an account of the file"
            raise WrongEntry(what, "priority", "accounts", name, hint=did_you_mean(above, accounts))
        passed = {name}
        while above and above in accounts and above not in passed:
            passed.add(above)
            above = accounts[above].parent
        if above in passed:
            what = f"stands below itself, by {above!r}"
            raise WrongEntry(what, "priority", "accounts", name, hint="take out one parent")
    weights = PriorityWeights()._replace(
        **{_WEIGHT_OF.get(key, key): getattr(table, key) for key in given - {"accounts", "dampening"}},
        dampening=float(table.dampening),
    )
    shares = (
        ShareAccount(name, each.parent, each.shares, tuple(each.users.items())) for name, each in accounts.items()
    )
    return SitePriority(table.order, weights, tuple(shares), table.not_modelled)


def _pool(name: str, table: NodeTypeTable, partitions: frozenset[str]) -> Pool:
    names = frozenset(table.nodes)
    if not names and table.count is None:
        raise WrongEntry("count is missing", "node_types", name, hint="add count = 100, or the names of its nodes")
    if names and table.count not in (None, len(names)):
        what = f"is {table.count:,}, but nodes has {len(names):,}"
        raise WrongEntry(what, "node_types", name, "count", hint="leave count out")
    gpus, features = tuple(table.gpus.items()), frozenset(table.features)
    node_type = NodeType(table.cores, table.memory, gpus, features, table.power_class, table.enclosure)
    return Pool(node_type, partitions, table.count or len(names), names)


def _partition(name: str, table: PartitionTable, types: Collection[str], qos: Collection[str]) -> Partition:
    members, key = table.node_types, ("partitions", name, "node_types")
    if not members:
        raise WrongEntry("has no node type", *key, hint=f"name some, or remove the table; {did_you_mean('', types)}")
    for number, member in enumerate(members):
        if member not in types:
            raise WrongEntry(f"{member!r} is not a node type", *key, hint=did_you_mean(member, types))
        if member in members[:number]:
            raise WrongEntry(f"{member!r} is given twice", *key, hint="keep one of them")
    if table.qos and table.qos not in qos:
        hint = did_you_mean(table.qos, qos)
        raise WrongEntry(f"{table.qos!r} is no QOS of the file", "partitions", name, "qos", hint=hint)
    return Partition(
        name,
        shared=table.shared,
        priority_tier=table.priority_tier,
        most_nodes=table.most_nodes,
        limit_s=table.limit,
        preempts=table.preempts,
        preempt_mode=table.preempt_mode,
        qos=table.qos,
        job_factor=table.job_factor,
    )


def cluster_text(cluster: Cluster, comment: str = "") -> str:
    """Return the file that describes a cluster, so that `parse_cluster` returns it again."""
    names = _type_names(cluster.pools)
    lines = [f"# {line}" for line in comment.splitlines()]
    has_limits = any(each != Qos(name) for name, each in cluster.qos.items())
    if cluster.qos and not has_limits:
        lines += [f"qos = {_toml(sorted(cluster.qos))}"]
    for name, pool in zip(names, cluster.pools, strict=True):
        lines += ["", f"[node_types.{_key(name)}]", *_assignments(_equipment(pool))]
    for partition in cluster.partitions.values():
        members = [name for name, pool in zip(names, cluster.pools, strict=True) if partition.name in pool.partitions]
        if members:
            terms = _assignments({"node_types": members, **_terms(partition, cluster.qos)})
            lines += ["", f"[partitions.{_key(partition.name)}]", *terms]
        else:
            lines += ["", f"# partition {_toml(partition.name)} has no nodes and is left out"]
    for name, qos in sorted(cluster.qos.items()) if has_limits else ():
        lines += ["", f"[qos.{_key(name)}]", *_assignments(_qos_terms(qos, cluster.qos))]
    if cluster.reservations:
        reserved = {name: fold(nodes) for name, nodes in cluster.reservations.items() if nodes}
        lines += ["", "[reservations]", *_assignments(reserved)]
    if cluster.licences:
        lines += ["", "[licences]", *_assignments(cluster.licences)]
    if cluster.priority:
        lines += _priority_lines(cluster.priority)
    if cluster.preemption != DEFAULT_PREEMPTION:
        rules = cluster.preemption
        own = {"exempt": f"{rules.exempt_s}s", "youngest_first": rules.youngest_first}
        lines += ["", "[preemption]", *_assignments(own)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _priority_lines(priority: SitePriority) -> list[str]:
    terms: dict[str, object] = {"order": priority.order.value}
    if priority.order is PriorityOrder.MULTIFACTOR:
        weights = priority.weights
        for key in PriorityTable.model_fields:
            if key not in ("order", "not_modelled", "accounts"):
                value = getattr(weights, _WEIGHT_OF.get(key, key))
                terms[key] = f"{value}s" if key in ("max_age", "half_life", "calc_period") else value
        terms["dampening"] = round(weights.dampening)
    if priority.not_modelled:
        terms["not_modelled"] = list(priority.not_modelled)
    lines = ["", "[priority]", *_assignments(terms)]
    for account in priority.accounts:
        own: dict[str, object] = {"parent": account.parent} if account.parent else {}
        own["shares"] = _written_shares(account.shares)
        if account.users:
            own["users"] = {user: _written_shares(shares) for user, shares in account.users}
        lines += ["", f"[priority.accounts.{_key(account.name)}]", *_assignments(own)]
    return lines


def _written_shares(shares: int | None) -> int | str:
    return USES_PARENT if shares is None else shares


def _equipment(pool: Pool) -> dict[str, object]:
    node = pool.node_type
    size = {"nodes": fold(pool.names)} if pool.names else {"count": pool.nodes}
    optional = {
        "memory": f"{node.memory_mib}MiB" if node.memory_mib else "",
        "gpus": node.gpus[0][1] if [name for name, _ in node.gpus] == [""] else dict(node.gpus),
        "features": sorted(node.features),
        "power_class": node.power_class,
        "enclosure": node.enclosure,
    }
    return {**size, "cores": node.cores, **{key: value for key, value in optional.items() if value}}


def _qos_terms(qos: Qos, known: Collection[str]) -> dict[str, object]:
    most = {f"most_{resource}": number for resource, number in zip(Allowance._fields, qos.group, strict=True)}
    own = {f"user_{resource}": number for resource, number in zip(Allowance._fields, qos.per_user, strict=True)}
    preempts = sorted(qos.preempts.intersection(known))
    terms = {
        "priority": qos.priority or None,
        "preempts_qos": preempts or None,
        "preempt_mode": _other_mode(qos.preempt_mode),
        "exempt": None if qos.exempt_s is None else f"{qos.exempt_s}s",
        **most,
        **own,
    }
    return {key: value for key, value in terms.items() if value is not None}


def _terms(partition: Partition, qos: Collection[str]) -> dict[str, object]:
    terms: dict[str, object] = {"shared": partition.shared, "priority_tier": partition.priority_tier}
    if partition.most_nodes is not None:
        terms["most_nodes"] = partition.most_nodes
    if partition.limit_s is not None:
        terms["limit"] = f"{partition.limit_s}s"
    if partition.qos in qos:
        terms["qos"] = partition.qos
    if partition.job_factor != 1:
        terms["job_factor"] = partition.job_factor
    if partition.preempts:
        terms["preempts"] = True
    if mode := _other_mode(partition.preempt_mode):
        terms["preempt_mode"] = mode
    return terms


def _other_mode(mode: PreemptMode) -> str | None:
    return None if mode is PreemptMode.REQUEUE else mode.value


def _type_names(pools: tuple[Pool, ...]) -> list[str]:
    """Return a name for each pool: the prefix of its node names, or `nodes`, with a number from the second on."""
    found: list[str] = []
    for pool in pools:
        first = min(pool.names, default="").rstrip("0123456789").rstrip("-_.") or "nodes"
        numbered = (f"{first}-{number}" for number in count(2))
        found.append(next(name for name in chain((first,), numbered) if name not in found))
    return found


def _assignments(values: Mapping[str, object]) -> list[str]:
    return [f"{_key(key)} = {_toml(value)}" for key, value in values.items()]


def _key(name: str) -> str:
    return tomlkit.key(name).as_string()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_assignments(value)) + " }"
    return tomlkit.item(value).as_string()

"""Reads and writes TOML files that describe a cluster, for logs that do not: node types, and partitions over them.

A file has a table [node_types.NAME] for the nodes of one equipment in the same partitions, and a table
[partitions.NAME] for each partition; optionally tables [qos.NAME], or a list `qos` of names, [reservations],
[licences], [priority] for the order of jobs, and [preemption].
"""

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import tomlkit

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.machines.node_sets import MOST_NODES, expand, fold
from offpeak.model.cluster import UNKNOWN, Cluster, NodeType, Partition, Pool
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
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.model.units import parse_duration_s, parse_memory_mib
from offpeak.text import did_you_mean

EXAMPLES = {
    "count": "100",
    "nodes": '"n[001-100]"',
    "cores": "64",
    "memory": '"256GiB"',
    "gpus": "{ a100 = 4 }",
    "features": '["ib", "rome"]',
    "power_class": '"server"',
    "enclosure": '"rack1"',
    "node_types": '["thin", "fat"]',
    "shared": "true",
    "priority_tier": "1",
    "most_nodes": "32",
    "limit": '"24h"',
    "preempts": "false",
    "qos": '["normal", "high"]',
    "priority": "100",
    "preempts_qos": '["low"]',
    "preempt_mode": '"requeue"',
    "exempt": '"10min"',
    "youngest_first": "true",
    "job_factor": "10",
    "order": '"multifactor"',
    **dict.fromkeys(("max_age", "half_life"), '"7d"'),
    "calc_period": '"5min"',
    "not_modelled": '["PriorityWeightTRES"]',
    "parent": '"science"',
    "shares": "30",
    "users": "{ anna = 3 }",
    **{f"{scope}_{resource}": "64" for scope in ("most", "user") for resource in Allowance._fields},
}
FORMAT = TomlFormat("a cluster", EXAMPLES)
MOST = 10**9
"""No count of cores, GPUs or licences is larger."""

_TABLES = ("node_types", "partitions", "qos", "reservations", "licences", "priority", "preemption")
_EQUIPMENT = ("count", "nodes", "cores", "memory", "gpus", "features", "power_class", "enclosure")
_TERMS = ("shared", "priority_tier", "most_nodes", "limit", "preempts", "preempt_mode", "qos", "job_factor")
_QOS_TERMS = (*(f"{scope}_{resource}" for scope in ("most", "user") for resource in Allowance._fields), "priority")
_WEIGHTS = ("age", "fair_share", "job_size", "partition", "qos")
_TIMES = {"max_age": "max_age_s", "half_life": "half_life_s", "calc_period": "calc_period_s"}
_FLAGS = {"favor_small": "favor_small", "small_relative_to_time": "small_relative_to_time", "fair_tree": "is_fair_tree"}
HIGHEST_WEIGHT = 2**32 - 1
"""No weight and no number of shares is larger: Slurm keeps them in 32 bits."""

USES_PARENT = "parent"
"""Shares of an account or a user that count as part of what stands above them, as in Slurm."""


def read_cluster(path: Path) -> Cluster:
    """Return the cluster that a TOML file describes. Raises BadInput with the file, the key and a hint."""
    return parse_cluster(read_bytes(path, BadInput), str(path))


def parse_cluster(text: bytes, file: str) -> Cluster:
    """Return the cluster that the text describes; `file` is where it comes from, for messages."""
    whole = FORMAT.parse(text, file)
    top = FORMAT.entries_below(whole, (), optional=_TABLES)
    how = "write [node_types.NAME], and below it count and cores"
    if "node_types" not in top:
        raise whole.wrong("node_types is missing", hint=how)
    types = FORMAT.named_entries(top["node_types"])
    if not types:
        raise top["node_types"].wrong("names no node type", hint=how)
    tables = FORMAT.named_entries(top["partitions"]) if "partitions" in top else {}
    partitions = {name: _partition(name, table, types) for name, table in tables.items()}
    pools = tuple(
        _pool(table, frozenset(each for each, (_, members) in partitions.items() if name in members))
        for name, table in types.items()
    )
    _check_names(pools, types)
    nodes = frozenset[str]().union(*(pool.names for pool in pools))
    qos = _qos_of(top["qos"]) if "qos" in top else {}
    for name, (partition, _) in partitions.items():
        if partition.qos and partition.qos not in qos:
            entry = FORMAT.named_entries(tables[name])["qos"]
            raise entry.wrong(f"{partition.qos!r} is no QOS of the file", hint=did_you_mean(partition.qos, qos))
    cluster = Cluster(
        pools,
        {name: partition for name, (partition, _) in partitions.items()},
        {name: _reserved(entry, nodes) for name, entry in _named(top, "reservations").items()},
        {name: _count(entry, least=0) for name, entry in _named(top, "licences").items()},
        qos,
        priority=_priority(top["priority"]) if "priority" in top else None,
        preemption=_preemption(top["preemption"]) if "preemption" in top else DEFAULT_PREEMPTION,
    )
    if names := cluster.qos_in_circles:
        hint = "take one of them out of preempts_qos"
        raise top["qos"].wrong(f"jobs of {', '.join(names)} may stop each other", hint=hint)
    return cluster


def _named(top: Mapping[str, TomlEntry], key: str) -> dict[str, TomlEntry]:
    return FORMAT.named_entries(top[key]) if key in top else {}


def _qos_of(entry: TomlEntry) -> dict[str, Qos]:
    """Return the QOS of a list of names, or of tables with their limits."""
    if not isinstance(entry.written, dict):
        return {name: Qos(name) for name in _texts(entry)}
    tables = FORMAT.named_entries(entry)
    found = {}
    for name, table in tables.items():
        below = FORMAT.entries_below(table, (), optional=(*_QOS_TERMS, "preempts_qos", "preempt_mode", "exempt"))
        preempts = _texts(below["preempts_qos"]) if "preempts_qos" in below else ()
        if absent := next((each for each in preempts if each not in tables), None):
            raise below["preempts_qos"].wrong(f"{absent!r} is no QOS of the file", hint=did_you_mean(absent, tables))
        number = {key: _count(below[key], least=0) for key in _QOS_TERMS if key in below}
        found[name] = Qos(
            name,
            group=Allowance(*(number.get(f"most_{resource}") for resource in Allowance._fields)),
            per_user=Allowance(*(number.get(f"user_{resource}") for resource in Allowance._fields)),
            priority=number.get("priority", 0),
            preempts=frozenset(preempts),
            preempt_mode=_mode(below["preempt_mode"]) if "preempt_mode" in below else PreemptMode.REQUEUE,
            exempt_s=_with_unit(below["exempt"], parse_duration_s) if "exempt" in below else None,
        )
    return found


def _mode(entry: TomlEntry) -> PreemptMode:
    return _one_of(PreemptMode, entry, "mode of preemption")


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(known: type[_Choice], entry: TomlEntry, what: str) -> _Choice:
    text = _text(entry)
    try:
        return known(text)
    except ValueError:
        raise entry.wrong(f"{text!r} is no {what}", hint=did_you_mean(text, list(known))) from None


def _preemption(table: TomlEntry) -> PreemptionRules:
    below = FORMAT.entries_below(table, (), optional=("exempt", "youngest_first"))
    return PreemptionRules(
        exempt_s=_with_unit(below["exempt"], parse_duration_s) if "exempt" in below else 0,
        youngest_first=_flag(below["youngest_first"]) if "youngest_first" in below else False,
    )


def _priority(table: TomlEntry) -> SitePriority:
    """Return the order of jobs. Raises BadInput for weights of an order that has none."""
    if not isinstance(table.written, dict):
        raise table.wrong("is no table", hint='write [priority], and below it order = "recorded", or weights')
    below = FORMAT.entries_below(
        table, (), optional=("order", "not_modelled", *_WEIGHTS, *_TIMES, *_FLAGS, "dampening", "accounts")
    )
    order = _one_of(PriorityOrder, below["order"], "order of jobs") if "order" in below else PriorityOrder.MULTIFACTOR
    extra = next((entry for key, entry in below.items() if key not in ("order", "not_modelled")), None)
    if order is not PriorityOrder.MULTIFACTOR and extra is not None:
        hint = f'leave it out, or write order = "{PriorityOrder.MULTIFACTOR}"'
        raise extra.wrong(f"is no part of the order {order.value!r}", hint=hint)
    given: dict[str, Any] = {key: _count(below[key], HIGHEST_WEIGHT, least=0) for key in _WEIGHTS if key in below}
    given |= {name: _period_s(below[key]) for key, name in _TIMES.items() if key in below}
    given |= {name: _flag(below[key]) for key, name in _FLAGS.items() if key in below}
    if "dampening" in below:
        given["dampening"] = float(_count(below["dampening"]))
    return SitePriority(
        order,
        PriorityWeights(**given),
        _accounts(below["accounts"]) if "accounts" in below else (),
        _texts(below["not_modelled"]) if "not_modelled" in below else (),
    )


def _period_s(entry: TomlEntry) -> int:
    seconds = _with_unit(entry, parse_duration_s)
    if not seconds and not entry.key.endswith("half_life"):
        raise entry.wrong("is 0", hint=f"leave it out, or write {FORMAT.how_to_write(entry.key.rpartition('.')[2])}")
    return seconds


def _accounts(entry: TomlEntry) -> tuple[ShareAccount, ...]:
    """Return the accounts. Raises BadInput for a parent that is not there, or that stands below the account."""
    tables = FORMAT.named_entries(entry)
    found = []
    for name, table in tables.items():
        below = FORMAT.entries_below(table, (), optional=("parent", "shares", "users"))
        users = FORMAT.named_entries(below["users"]) if "users" in below else {}
        found.append(
            ShareAccount(
                name,
                _text(below["parent"]) if "parent" in below else "",
                _shares(below["shares"]) if "shares" in below else 1,
                tuple((user, _shares(shares)) for user, shares in users.items()),
            )
        )
    parents = {account.name: account.parent for account in found}
    for account in found:
        above = account.parent
        if above and above not in parents:
            hint = did_you_mean(above, parents)
            raise tables[account.name].wrong(f"parent {above!r} is no account of the file", hint=hint)
        passed = {account.name}
        while above and above in parents and above not in passed:
            passed.add(above)
            above = parents[above]
        if above in passed:
            raise tables[account.name].wrong(f"stands below itself, by {above!r}", hint="take out one parent")
    return tuple(found)


def _shares(entry: TomlEntry) -> int | None:
    return None if entry.written == USES_PARENT else _count(entry, HIGHEST_WEIGHT, least=0)


def _pool(table: TomlEntry, partitions: frozenset[str]) -> Pool:
    below = FORMAT.entries_below(table, ("cores",), optional=_EQUIPMENT)
    names = frozenset(_node_set(below["nodes"])) if "nodes" in below else frozenset[str]()
    if not names and "count" not in below:
        raise table.wrong("count is missing", hint=f"add {FORMAT.how_to_write('count')}, or the names of its nodes")
    nodes = _count(below["count"], MOST_NODES) if "count" in below else len(names)
    if names and nodes != len(names):
        raise below["count"].wrong(f"is {nodes:,}, but nodes has {len(names):,}", hint="leave count out")
    node_type = NodeType(
        cores=_count(below["cores"], least=UNKNOWN),
        memory_mib=_with_unit(below["memory"], parse_memory_mib) if "memory" in below else UNKNOWN,
        gpus=_gpus(below["gpus"]) if "gpus" in below else (),
        features=frozenset(_texts(below["features"])) if "features" in below else frozenset(),
        power_class=_text(below["power_class"]) if "power_class" in below else "",
        enclosure=_text(below["enclosure"]) if "enclosure" in below else "",
    )
    return Pool(node_type, partitions, nodes, names)


def _gpus(entry: TomlEntry) -> tuple[tuple[str, int], ...]:
    if isinstance(entry.written, int):
        return (("", _count(entry)),)
    return tuple((name, _count(number)) for name, number in FORMAT.named_entries(entry).items())


def _partition(name: str, table: TomlEntry, types: Collection[str]) -> tuple[Partition, tuple[str, ...]]:
    """Return the partition and the names of its node types."""
    below = FORMAT.entries_below(table, ("node_types",), optional=_TERMS)
    members = _texts(below["node_types"])
    if not members:
        raise below["node_types"].wrong(
            "has no node type", hint=f"name some, or remove the table; {did_you_mean('', types)}"
        )
    for member in members:
        if member not in types:
            raise below["node_types"].wrong(f"{member!r} is no node type", hint=did_you_mean(member, types))
    if repeated := next((member for number, member in enumerate(members) if member in members[:number]), None):
        raise below["node_types"].wrong(f"{repeated!r} is given twice", hint="keep one of them")
    partition = Partition(
        name,
        shared=_flag(below["shared"]) if "shared" in below else False,
        priority_tier=_count(below["priority_tier"], least=0) if "priority_tier" in below else 1,
        most_nodes=_count(below["most_nodes"]) if "most_nodes" in below else None,
        limit_s=_with_unit(below["limit"], parse_duration_s) if "limit" in below else None,
        preempts=_flag(below["preempts"]) if "preempts" in below else False,
        preempt_mode=_mode(below["preempt_mode"]) if "preempt_mode" in below else PreemptMode.REQUEUE,
        qos=_qos_name(below["qos"]) if "qos" in below else "",
        job_factor=_count(below["job_factor"], least=0) if "job_factor" in below else 1,
    )
    return partition, members


def _check_names(pools: tuple[Pool, ...], tables: Mapping[str, TomlEntry]) -> None:
    """Raise BadInput for a node of two node types: which equipment it has would be unknown."""
    type_of: dict[str, str] = {}
    for pool, (name, table) in zip(pools, tables.items(), strict=True):
        if twice := pool.names & type_of.keys():
            node = min(twice)
            what = f"{node!r} is a node of {type_of[node]!r} too"
            raise table.wrong(what, hint="a node has one type: take it out of one of the two")
        type_of |= dict.fromkeys(pool.names, name)


def _reserved(entry: TomlEntry, nodes: frozenset[str]) -> frozenset[str]:
    names = frozenset(_node_set(entry))
    if absent := names - nodes:
        raise entry.wrong(f"{min(absent)!r} is no node", hint="reserve nodes that a node type names in `nodes`")
    return names


def _node_set(entry: TomlEntry) -> tuple[str, ...]:
    try:
        return expand(_text(entry))
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None


def _count(entry: TomlEntry, most: int = MOST, *, least: int = 1) -> int:
    number = entry.written
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise entry.wrong(f"{number!r} is no whole number from {least} to {most:,}", hint="write it without quotes")
    return number


def _flag(entry: TomlEntry) -> bool:
    if not isinstance(entry.written, bool):
        raise entry.wrong(f"{entry.written!r} is neither true nor false", hint="write true or false, without quotes")
    return entry.written


def _text(entry: TomlEntry) -> str:
    if not isinstance(entry.written, str):
        key = entry.key.rpartition(".")[2]
        raise entry.wrong(f"{entry.written!r} is no text", hint=f"write it in quotes: {FORMAT.how_to_write(key)}")
    return entry.written


def _qos_name(entry: TomlEntry) -> str:
    if not isinstance(entry.written, str):
        raise entry.wrong(f"{entry.written!r} is no name of a QOS", hint='write it in quotes: qos = "high"')
    return entry.written


def _texts(entry: TomlEntry) -> tuple[str, ...]:
    key = entry.key.rpartition(".")[2]
    if not isinstance(entry.written, list) or not all(isinstance(each, str) for each in entry.written):
        raise entry.wrong(f"{entry.written!r} is no list of names", hint=f"write {FORMAT.how_to_write(key)}")
    return tuple(entry.written)


def _with_unit(entry: TomlEntry, parse: Callable[[str], int]) -> int:
    text = _text(entry)
    try:
        return parse(text)
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None


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
        terms |= {key: getattr(weights, key) for key in _WEIGHTS} | {"dampening": round(weights.dampening)}
        terms |= {key: f"{getattr(weights, name)}s" for key, name in _TIMES.items()}
        terms |= {key: getattr(weights, name) for key, name in _FLAGS.items()}
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

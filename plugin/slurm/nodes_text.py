"""The nodes that `scontrol --all --oneliner show nodes` prints, one a line."""

import re

from plugin.scheduler.node import Node, NodeUse
from plugin.slurm.node_states import condition
from plugin.slurm.words import count, parts, plain, unix_s

ARGUMENTS = ("--all", "--oneliner", "show", "nodes")

_STARTS = re.compile(r"^NodeName=", re.MULTILINE)
_FIELD = re.compile(r"(?:^|\s)([A-Z]\w+)=(\S*)")
# What admins write freely stands last, in this order.
_FREE = re.compile(r"(?:^|\s)Reason=(.*?)(?=\sComment=|\sExtra=|$)|(?:^|\s)Comment=(.*?)(?=\sExtra=|$)", re.DOTALL)
_BY = re.compile(r"(.*) \[([^\]@]*)@([^\]@]*)\]", re.DOTALL)
_FIXED = re.compile(r"\s(?:Reason|Comment|Extra)=")


def nodes_of_text(text: bytes) -> tuple[Node, ...]:
    """Return the nodes of scontrol's answer, each once; a field that is missing counts as nothing."""
    records = _STARTS.split(text.decode(errors="replace"))[1:]
    return tuple({node.name: node for node in map(_node, records)}.values())


def node_fields(text: bytes) -> dict[str, str]:
    """Return the fields of the first node of scontrol's answer as they are, without those that admins write freely."""
    record = text.decode(errors="replace").rstrip()
    return dict(_FIELD.findall(record[: _free_at(record)]))


def _free_at(record: str) -> int:
    return match.start() if (match := _FIXED.search(record)) else len(record)


def _node(record: str) -> Node:
    name, _, rest = record.rstrip().partition(" ")
    free_at = _free_at(rest)
    fields = dict(_FIELD.findall(rest[:free_at]))
    reason, by, at, comment = _free(rest[free_at:])
    cpus_used = count(fields.get("CPUAlloc", ""))
    state = fields.get("State", "").rstrip("*")
    says = condition(state, cpus_used > 0)
    return Node(
        name,
        state,
        *says,
        reason,
        by,
        at,
        parts(fields.get("Partitions", "")),
        parts(fields.get("AvailableFeatures", "")),
        count(fields.get("CPUTot", "")),
        cpus_used,
        count(fields.get("RealMemory", "")),
        unix_s(fields.get("BootTime", "")),
        unix_s(fields.get("LastBusyTime", "")) if says.use is NodeUse.FREE else None,
        comment,
    )


def _free(text: str) -> tuple[str, str, int | None, str]:
    """Return reason, by whom, since when, and the comment."""
    reason = comment = ""
    for match in _FREE.finditer(text):
        reason, comment = match[1] or reason, match[2] or comment
    signed = _BY.fullmatch(reason)
    if not signed:
        return plain(reason), "", None, comment
    return signed[1], signed[2], unix_s(signed[3]), comment

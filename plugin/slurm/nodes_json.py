"""Nodes and reservations of `scontrol show ... --json`, of `sinfo --json` before 23.02, and of slurmrestd."""

from offpeak.machines.node_sets import expand
from plugin.scheduler.node import Node, NodeUse, Reservation
from plugin.slurm.answer_json import Record, number, records, seconds, text, words
from plugin.slurm.node_states import condition
from plugin.slurm.words import plain


def nodes_of_json(answer: bytes, *, source: str) -> tuple[Node, ...]:
    """Return the nodes of the answer, each once; CannotAskSlurm as `records`."""
    return tuple({node.name: node for node in map(_node, records(answer, "nodes", source=source))}.values())


def reservations_of_json(answer: bytes, *, source: str) -> tuple[Reservation, ...]:
    """Return the reservations of the answer; CannotAskSlurm as `records`."""
    return tuple(map(_reservation, records(answer, "reservations", source=source)))


def _node(record: Record) -> Node:
    state = "+".join(word.upper() for word in (*words(record, "state"), *words(record, "state_flags")))
    cpus_used = number(record, "alloc_cpus") or 0
    says = condition(state, cpus_used > 0)
    reason = plain(text(record, "reason"))
    return Node(
        text(record, "name"),
        state,
        *says,
        reason,
        text(record, "reason_set_by_user") if reason else "",
        seconds(record, "reason_changed_at") if reason else None,
        words(record, "partitions"),
        words(record, "features"),
        number(record, "cpus") or 0,
        cpus_used,
        number(record, "real_memory") or 0,
        seconds(record, "boot_time"),
        seconds(record, "last_busy") if says.use is NodeUse.FREE else None,
        text(record, "comment"),
    )


def _reservation(record: Record) -> Reservation:
    nodes = text(record, "node_list")
    return Reservation(
        text(record, "name"),
        seconds(record, "start_time") or 0,
        seconds(record, "end_time") or 0,
        expand(nodes) if nodes else (),
        "MAINT" in words(record, "flags"),
    )

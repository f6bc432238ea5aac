"""The types of the nodes that a scheduler reports: a number of CPUs, an amount of memory, and the GPUs of a node."""

from collections.abc import Iterable
from typing import NamedTuple

from offpeak.model.cluster import NodeType
from offpeak.plugin.scheduler.node import Node

EQUAL_MEMORY = 1.05
"""Nodes of one type report slightly different memory; a larger ratio is another type."""


def find_types(nodes: Iterable[Node]) -> dict[NodeType, list[Node]]:
    """Return the nodes by type, the type with the most nodes first; its memory is the least of its nodes."""
    alike: dict[tuple[int, tuple[tuple[str, int], ...]], dict[int, list[Node]]] = {}
    for node in nodes:
        alike.setdefault((node.cpus, node.gpus), {}).setdefault(node.memory_mib, []).append(node)
    found: dict[NodeType, list[Node]] = {}
    for (cpus, gpus), by_memory in alike.items():
        least = last = 0
        for memory_mib in sorted(by_memory):
            if memory_mib > last * EQUAL_MEMORY:
                least = memory_mib
            last = memory_mib
            found.setdefault(NodeType(cpus, least, gpus), []).extend(by_memory[memory_mib])
    place = {node.name: number for number, node in enumerate(nodes)}
    for members in found.values():
        members.sort(key=lambda node: place[node.name])
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


class NodePlace(NamedTuple):
    """What the scheduler knows of a node: its equipment in words, and its partitions as "batch,gpu"; "" if unknown.

    `left` is its state there and what to type, for a node that is on and that no job can use.
    """

    node_type: str = ""
    partitions: str = ""
    left: str = ""


UNKNOWN_PLACE = NodePlace()


def find_node_places(nodes: Iterable[Node]) -> dict[str, NodePlace]:
    """Return the place of each node by name. Nodes of unknown equipment have no type."""
    return {
        node.name: NodePlace(kind.equipment if kind.cores else "", ",".join(node.partitions))
        for kind, members in find_types(nodes).items()
        for node in members
    }

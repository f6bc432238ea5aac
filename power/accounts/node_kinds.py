"""What the nodes of a partition are like: what one draws that jobs use, and how many processors it has."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from offpeak.model.job_power import ASSUMED_POWER
from offpeak.model.node_class import NodeClass
from plugin.scheduler.job import Job
from plugin.scheduler.node import Node
from power.accounts.draw import Draw
from power.accounts.shares import share_of
from power.capacity.price_profile import JOB_UTILISATION

ASSUMED = Draw((ASSUMED_POWER.low_w + ASSUMED_POWER.high_w) / 2, "assumed: no node class is set")


@dataclass(frozen=True)
class NodeKind:
    """The mean of a partition's nodes."""

    busy: Draw
    cpus: float


def kinds_of(nodes: Iterable[Node], class_of: Callable[[str], NodeClass | None]) -> dict[str, NodeKind]:
    """Return the kind of each partition; `class_of` gives the node class by the node's name, None where none is set."""
    of = defaultdict[str, list[Node]](list)
    for node in nodes:
        for partition in node.partitions:
            of[partition].append(node)
    return {partition: _mean(its, class_of) for partition, its in of.items()}


def draw_by_class(job: Job, kinds: Mapping[str, NodeKind]) -> Draw:
    """Return what nothing but the kind of its nodes says of a job: of a shared node its share by processors."""
    kind = next((kinds[each] for each in job.partitions if each in kinds), None)
    if kind is None:
        return ASSUMED
    return Draw(kind.busy.node_w * share_of(job, round(kind.cpus)), kind.busy.basis)


def _mean(nodes: list[Node], class_of: Callable[[str], NodeClass | None]) -> NodeKind:
    classes = [each for node in nodes if (each := class_of(node.name)) is not None]
    cpus = fmean(node.cpus for node in nodes)
    if not classes:
        return NodeKind(ASSUMED, cpus)
    busy_w = {each.name: each.running_w(JOB_UTILISATION) for each in classes}
    names = ", ".join(sorted(busy_w))
    return NodeKind(Draw(fmean(busy_w[each.name] for each in classes), f"node class {names}"), cpus)

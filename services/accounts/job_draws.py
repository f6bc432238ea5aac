"""The power of a job without any history: as its site declares it, or as its nodes usually draw, by its share of them.

A site declares power by the name, user, account or partition of a job: "hot*=400W", "partition:gpu=900W". A job has
the share of its nodes that are its own, else the share of the processors that it holds. What no job holds of a node
counts as idle, so the shares of all jobs and of the idle rest are the whole node.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from offpeak.errors import BadSetting
from offpeak.model.job_power import ASSUMED_POWER, ConstantPower, parse_power_model
from offpeak.model.node_class import JOB_UTILISATION, NodeClass
from offpeak.model.units import parse_power_w
from offpeak.plugin.scheduler.job import Job
from offpeak.plugin.scheduler.node import Node
from offpeak.settings.replay import PowerSettings
from offpeak.text import did_you_mean


class JobDraw(NamedTuple):
    """What a job draws of each of its nodes [W], the basis as a text, and its share of these nodes, 0..1.

    A node that is full of such jobs draws `full_node_w`.
    """

    node_w: float
    basis: str
    share: float = 1.0

    @property
    def full_node_w(self) -> float:
        """The power of a node that is full of such jobs [W]."""
        return self.node_w / self.share


def share_of(job: Job, cpus: int | None) -> float:
    """Return the job's share of a node with so many processors; None if unknown: then it has the whole node.

    Schedulers give the number of all processors of a job; they count as spread evenly.
    """
    if job.whole_nodes or not cpus:
        return 1.0
    return min(1.0, job.cpus / max(1, job.nodes) / cpus)


def shares(job: Job, nodes: tuple[str, ...], cpus: Mapping[str, int]) -> dict[str, float]:
    """Return the job's share of each of these nodes, 0..1."""
    return {node: share_of(job, cpus.get(node)) for node in nodes}


JOB_FIELDS: Mapping[str, Callable[[Job], Sequence[str]]] = {
    "name": lambda job: (job.name,),
    "user": lambda job: (job.user,),
    "account": lambda job: (job.account,),
    "partition": lambda job: job.partitions,
}
DECLARED_HINT = (
    'write it like "hot*=400W" for names of jobs, "user:ann=300W", "account:chem*=350W" or "partition:gpu=900W"'
)


@dataclass(frozen=True)
class DeclaredDraw:
    """Nodes full of jobs whose column fits the pattern draw `node_w` [W per node]; `text` is the declaration."""

    column: str
    pattern: str
    node_w: float
    text: str

    def fits(self, job: Job) -> bool:
        """Return whether the declaration applies to the job."""
        return any(map(self._fits, JOB_FIELDS[self.column](job)))

    def draw(self, share: float) -> JobDraw:
        """Return the power of such a job that has this share of its nodes."""
        return JobDraw(self.node_w * share, f"declared: {self.text}", share)

    @cached_property
    def _fits(self) -> Callable[[str], object]:
        return re.compile(translate(self.pattern)).match


def read_declared_draws(power: PowerSettings) -> tuple[DeclaredDraw, ...]:
    """Return the declarations of the settings: the classes of jobs, and one power for all others if `job` is constant.

    Raises BadSetting or BadInput for what cannot be read. The other models of `job` are for logs only.
    """
    model = parse_power_model(power.job) if power.job else None
    rest = (DeclaredDraw("name", "*", model.power_w, power.job or ""),) if isinstance(model, ConstantPower) else ()
    return (*parse_declared_draws(power.classes or ()), *rest)


def parse_declared_draws(texts: Sequence[str]) -> tuple[DeclaredDraw, ...]:
    """Return the declarations in the order of their precedence. Raises BadSetting for one that cannot be read."""
    return tuple(_parse_declared_draw(text) for text in texts)


def _parse_declared_draw(text: str) -> DeclaredDraw:
    what, equals, power = text.rpartition("=")
    column, colon, pattern = what.strip().rpartition(":")
    column = column.strip() if colon else "name"
    if not equals or not pattern.strip():
        raise BadSetting(f"[power] classes: {text!r} is not a draw of jobs", hint=DECLARED_HINT)
    if column not in JOB_FIELDS:
        raise BadSetting(f"[power] classes: {text!r}: {column!r} is unknown", hint=did_you_mean(column, JOB_FIELDS))
    node_w = parse_power_w(power)
    if node_w <= 0:
        raise BadSetting(f"[power] classes: {text!r}: a running job draws something", hint=DECLARED_HINT)
    return DeclaredDraw(column, pattern.strip(), node_w, text)


def find_declared_draw(job: Job, declared: Sequence[DeclaredDraw], kinds: Mapping[str, "NodeKind"]) -> JobDraw | None:
    """Return the power of the job by the first declaration that applies to it, None without one."""
    declaration = next((each for each in declared if each.fits(job)), None)
    return None if declaration is None else declaration.draw(_share_by_kind(job, find_kind(job, kinds)))


ASSUMED = JobDraw((ASSUMED_POWER.low_w + ASSUMED_POWER.high_w) / 2, "assumed: no node class is set")


@dataclass(frozen=True)
class NodeKind:
    """The mean of a partition's nodes; none of them draws more than `most_w`."""

    busy: JobDraw
    cpus: float
    most_w: float = math.inf


def find_node_kinds(nodes: Iterable[Node], class_of: Callable[[str], NodeClass | None]) -> dict[str, NodeKind]:
    """Return the kind of each partition; `class_of` gives the class of a node by its name, None if none is set."""
    of = defaultdict[str, list[Node]](list)
    for node in nodes:
        for partition in node.partitions:
            of[partition].append(node)
    return {partition: _mean(its, class_of) for partition, its in of.items()}


def draw_by_class(job: Job, kinds: Mapping[str, NodeKind]) -> JobDraw:
    """Return the power of a job by the kind of its nodes only; of a shared node its share by processors."""
    kind = find_kind(job, kinds)
    share = _share_by_kind(job, kind)
    return ASSUMED if kind is None else JobDraw(kind.busy.node_w * share, kind.busy.basis, share)


def find_kind(job: Job, kinds: Mapping[str, NodeKind]) -> NodeKind | None:
    """Return the kind of the nodes of the job's first known partition."""
    return next((kinds[partition] for partition in job.partitions if partition in kinds), None)


def _share_by_kind(job: Job, kind: NodeKind | None) -> float:
    return share_of(job, None if kind is None else round(kind.cpus)) or 1.0


def bounded_draw(draw: JobDraw, kind: NodeKind | None) -> JobDraw:
    """Return the draw; no node that is full of such jobs draws more than nodes of the kind can."""
    return draw if kind is None else draw._replace(node_w=min(draw.node_w, kind.most_w * draw.share))


def _mean(nodes: list[Node], class_of: Callable[[str], NodeClass | None]) -> NodeKind:
    classes = [node_class for node in nodes if (node_class := class_of(node.name)) is not None]
    cpus = fmean(node.cpus for node in nodes)
    if not classes:
        return NodeKind(ASSUMED, cpus)
    busy_w = {node_class.name: node_class.running_w(JOB_UTILISATION) for node_class in classes}
    names = ", ".join(sorted(busy_w))
    most_w = max(node_class.running_w(1.0) for node_class in classes)
    busy = JobDraw(fmean(busy_w[node_class.name] for node_class in classes), f"node class {names}")
    return NodeKind(busy, cpus, most_w if len(classes) == len(nodes) else math.inf)

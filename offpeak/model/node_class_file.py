"""Reads node classes from TOML: those that come with offpeak, and a site's own.

A file has the keys `idle` and `running`, optionally `repair` and `enclosure`, and a table for each sleep depth:
[powersave], [standby], [off].
"""

from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.constants import DAY_S
from offpeak.model.description import (
    Description,
    Power,
    Share,
    TableModel,
    WrongEntry,
    read_by,
    refuse,
)
from offpeak.model.node_class import DepthPower, EnclosurePower, NodeClass, Transition
from offpeak.model.node_states import DEPTHS, POWERSAVE
from offpeak.settings.kinds import DURATION, whole_number
from offpeak.text import did_you_mean

BUNDLED = files("offpeak") / "node_classes"
CURVE = '[[0.0, "150W"], [1.0, "300W"]]'


def _repair_s(written: object) -> int:
    seconds = int(DURATION.read(written))
    return seconds or refuse(f"{written!r} is zero", hint="leave it out if nobody repairs nodes")


def _measured_s(written: object) -> int:
    seconds = int(DURATION.read(written))
    if not 1 <= seconds <= DAY_S:
        raise BadInput(f"{written!r} is not from 1s to 1d", hint="write what you measured, such as 180s")
    return seconds


class TransitionTable(TableModel):
    """The way into a sleep depth, or out of it."""

    duration: Annotated[int, read_by(_measured_s)]
    power: Power
    failure_probability: Share


class DepthModel(TableModel):
    """[powersave], [standby] or [off]: a sleep depth."""

    power: Power
    enter: TransitionTable
    leave: TransitionTable


class EnclosureTable(TableModel):
    """The enclosure of the nodes."""

    nodes: Annotated[int, read_by(whole_number(2, 1000).read)]
    overhead: Power


def _point(written: object) -> list[object]:
    if not isinstance(written, list) or len(written) != 2:
        raise BadInput(f"{written!r} is not a point", hint=f"write it like {CURVE}")
    return written


class NodeClassFile(Description):
    """The whole file."""

    noun = "a node class"
    examples: ClassVar = {
        "idle": '"150W"',
        "running": CURVE,
        "enclosure": '{ nodes = 12, overhead = "120W" }',
        "nodes": "12",
        "overhead": '"120W"',
        "power": '"10W"',
        "enter": '{ duration = "60s", power = "150W", failure_probability = 0.0 }',
        "leave": '{ duration = "180s", power = "200W", failure_probability = 0.0 }',
        "duration": '"180s"',
        "failure_probability": "0.01",
    }

    idle: Power
    running: list[Annotated[tuple[Share, Power], read_by(_point), Field(strict=False)]]
    repair: Annotated[int, read_by(_repair_s)] | None = None
    enclosure: EnclosureTable | None = None
    powersave: DepthModel | None = None
    standby: DepthModel | None = None
    off: DepthModel | None = None


def node_class_named(text: str) -> NodeClass:
    """Return the bundled class of that name, else the class in the TOML file. Raises BadInput if it is neither."""
    if text in bundled_node_classes():
        return bundled_node_class(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml" or path.exists():
        return read_node_class(path)
    hint = f"{did_you_mean(text, bundled_node_classes())}; or name a TOML file"
    raise BadInput(f"{text!r} is not a node class", hint=hint)


def bundled_node_classes() -> tuple[str, ...]:
    """Return the names of the classes that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".toml")))


def bundled_node_class(name: str) -> NodeClass:
    """Return the class of one of `bundled_names`; its file names the sources of the figures."""
    file = BUNDLED / f"{name}.toml"
    return _node_class(file.read_bytes(), name, file.name)


def read_node_class(path: Path) -> NodeClass:
    """Return the class of a TOML file, called like the file. Raises BadInput with the file, the key and a hint."""
    return _node_class(read_bytes(path, BadInput), path.stem, str(path))


def _node_class(text: bytes, name: str, file: str) -> NodeClass:
    return NodeClassFile.parse(text, file, lambda tables: _build(name, tables))


def _build(name: str, tables: NodeClassFile) -> NodeClass:
    depths = tuple(_depths(tables))
    if tables.repair is not None and any(depth.leave.failure_probability == 1 for depth in depths):
        hint = "a node that never comes up again is not repaired: leave repair out, or give a probability below 1"
        raise WrongEntry("goes with a wake that always fails", "repair", hint=hint)
    enclosure = None
    if tables.enclosure is not None:
        nodes, overhead_w = tables.enclosure.nodes, tables.enclosure.overhead
        least_w = tables.idle - max((depth.power_w for depth in depths if depth.depth != POWERSAVE), default=0.0)
        if overhead_w / nodes >= least_w:
            what = f"{overhead_w / nodes:g}W for each node is not less than the {least_w:g}W that sleep saves with it"
            hint = "idle includes the share of the overhead; the power asleep does not"
            raise WrongEntry(what, "enclosure", "overhead", hint=hint)
        enclosure = EnclosurePower(nodes, overhead_w)
    points = tuple(tables.running)
    hint = f"write it like {CURVE}"
    if not points or points[0] != (0.0, tables.idle):
        raise WrongEntry(f"does not begin with utilisation 0 at the idle {tables.idle:g}W", "running", hint=hint)
    if points[-1][0] != 1:
        raise WrongEntry("does not end with utilisation 1", "running", hint=hint)
    for (used, power_w), (more_used, more_w) in pairwise(points):
        if more_used <= used or more_w < power_w:
            what = f"{more_w:g}W at {more_used:g} comes after {power_w:g}W at {used:g}"
            raise WrongEntry(what, "running", hint="order the points by utilisation; more use never draws less")
    return NodeClass(name, tables.idle, points, depths, tables.repair, enclosure)


def _depths(tables: NodeClassFile) -> Iterator[DepthPower]:
    above, above_w = "idle", tables.idle
    for number, name in enumerate(DEPTHS):
        table: DepthModel | None = getattr(tables, name)
        if table is None:
            continue
        if table.power > above_w:
            what = f"{table.power:g}W is more than the {above_w:g}W of {above}"
            raise WrongEntry(what, name, hint="a deeper sleep never draws more; check both figures")
        above, above_w = name, table.power
        enter, leave = (
            Transition(way.duration, way.power, way.failure_probability) for way in (table.enter, table.leave)
        )
        yield DepthPower(number, table.power, enter, leave)

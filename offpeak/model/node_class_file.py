"""Reads node classes from TOML: those that come with offpeak, and a site's own.

A file has the keys `idle` and `running`, optionally `repair` and `enclosure`, and a table for each sleep depth:
[powersave], [standby], [off].
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.constants import DAY_S
from offpeak.model.node_class import DepthPower, EnclosurePower, NodeClass, Transition
from offpeak.model.node_states import DEPTHS, POWERSAVE
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.settings.kinds import DURATION, POWER, SettingKind
from offpeak.text import did_you_mean

EXAMPLES = {
    "idle": '"150W"',
    "running": '[[0.0, "150W"], [1.0, "300W"]]',
    "repair": '"24h"',
    "enclosure": '{ nodes = 12, overhead = "120W" }',
    "nodes": "12",
    "overhead": '"120W"',
    "power": '"10W"',
    "enter": '{ duration = "60s", power = "150W", failure_probability = 0.0 }',
    "leave": '{ duration = "180s", power = "200W", failure_probability = 0.0 }',
    "duration": '"180s"',
    "failure_probability": "0.01",
}


FORMAT = TomlFormat("a node class", EXAMPLES)


def read_power_w(entry: TomlEntry) -> float:
    """Return a power, such as "150W", in watts. Raises BadInput like `parse_power_w`."""
    return _read(entry, POWER)


def read_duration_s(entry: TomlEntry) -> int:
    """Return a duration, such as "180s", in seconds. Raises BadInput unless it is a second to a day long."""
    seconds = _read(entry, DURATION)
    if not 1 <= seconds <= DAY_S:
        raise entry.wrong(f"{entry.written!r} is not from 1s to 1d", hint="write what you measured, such as 180s")
    return int(seconds)


def read_repair_s(entry: TomlEntry) -> int:
    """Return how long a repair takes, such as "24h", in seconds. Raises BadInput unless it is at least a second."""
    seconds = _read(entry, DURATION)
    if seconds < 1:
        raise entry.wrong(f"{entry.written!r} is no time at all", hint="leave it out if nobody repairs nodes")
    return int(seconds)


def read_share(entry: TomlEntry) -> float:
    """Return a number from 0 to 1. Raises BadInput otherwise."""
    number = entry.written
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= 1:
        raise entry.wrong(f"{number!r} is not from 0 to 1", hint="write a number without quotes, such as 0.01")
    return float(number)


def _read(entry: TomlEntry, kind: SettingKind) -> float:
    try:
        return float(kind.read(entry.written))
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None


BUNDLED = files("offpeak") / "node_classes"


def node_class_named(text: str) -> NodeClass:
    """Return the bundled class of that name, else the class in the TOML file. Raises BadInput if it is neither."""
    if text in bundled_node_classes():
        return bundled_node_class(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml" or path.exists():
        return read_node_class(path)
    hint = f"{did_you_mean(text, bundled_node_classes())}; or name a TOML file"
    raise BadInput(f"{text!r} is no node class", hint=hint)


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
    top = FORMAT.entries_below(FORMAT.parse(text, file), ("idle", "running"), optional=("repair", "enclosure", *DEPTHS))
    idle_w = read_power_w(top["idle"])
    repair_s = read_repair_s(top["repair"]) if "repair" in top else None
    depths = tuple(_depths(top, idle_w))
    if repair_s is not None and any(depth.leave.failure_probability == 1 for depth in depths):
        hint = "a node that never comes up again is not repaired: leave repair out, or give a probability below 1"
        raise top["repair"].wrong("goes with a wake that always fails", hint=hint)
    enclosure = _enclosure(top["enclosure"], idle_w, depths) if "enclosure" in top else None
    return NodeClass(name, idle_w, _running(top["running"], idle_w), depths, repair_s, enclosure)


def _enclosure(table: TomlEntry, idle_w: float, depths: tuple[DepthPower, ...]) -> EnclosurePower:
    below = FORMAT.entries_below(table, ("nodes", "overhead"))
    nodes, overhead_w = below["nodes"].written, read_power_w(below["overhead"])
    if type(nodes) is not int or nodes < 2:
        raise below["nodes"].wrong(f"{nodes!r} is no number of nodes from 2", hint="count the nodes of one enclosure")
    least_w = idle_w - max((depth.power_w for depth in depths if depth.depth != POWERSAVE), default=0.0)
    if overhead_w / nodes >= least_w:
        what = f"{overhead_w / nodes:g}W for each node is not less than the {least_w:g}W that sleep saves with it"
        raise below["overhead"].wrong(what, hint="idle includes the share of the overhead; the power asleep does not")
    return EnclosurePower(nodes, overhead_w)


def _running(curve: TomlEntry, idle_w: float) -> tuple[tuple[float, float], ...]:
    points = tuple(_points(curve))
    hint = f"write it like {EXAMPLES['running']}"
    if not points or points[0] != (0.0, idle_w):
        raise curve.wrong(f"does not begin with utilisation 0 at the idle {idle_w:g}W", hint=hint)
    if points[-1][0] != 1:
        raise curve.wrong("does not end with utilisation 1", hint=hint)
    for (used, power_w), (more_used, more_w) in pairwise(points):
        if more_used <= used or more_w < power_w:
            what = f"{more_w:g}W at {more_used:g} comes after {power_w:g}W at {used:g}"
            raise curve.wrong(what, hint="order the points by utilisation; more use never draws less")
    return points


def _points(curve: TomlEntry) -> Iterator[tuple[float, float]]:
    hint = f"write it like {EXAMPLES['running']}"
    if not isinstance(curve.written, list):
        raise curve.wrong("is no list of points", hint=hint)
    for point in curve.written:
        if not isinstance(point, list) or len(point) != 2:
            raise curve.wrong(f"{point!r} is no point", hint=hint)
        yield read_share(replace(curve, written=point[0])), read_power_w(replace(curve, written=point[1]))


def _depths(top: dict[str, TomlEntry], idle_w: float) -> Iterator[DepthPower]:
    above, above_w = "idle", idle_w
    for number, name in enumerate(DEPTHS):
        if name not in top:
            continue
        depth = _depth(top[name], number)
        if depth.power_w > above_w:
            what = f"{depth.power_w:g}W is more than the {above_w:g}W of {above}"
            raise top[name].wrong(what, hint="a deeper sleep never draws more; check both figures")
        above, above_w = name, depth.power_w
        yield depth


def _depth(table: TomlEntry, number: int) -> DepthPower:
    below = FORMAT.entries_below(table, ("power", "enter", "leave"))
    return DepthPower(number, read_power_w(below["power"]), _transition(below["enter"]), _transition(below["leave"]))


def _transition(table: TomlEntry) -> Transition:
    below = FORMAT.entries_below(table, ("duration", "power", "failure_probability"))
    duration_s, power_w = read_duration_s(below["duration"]), read_power_w(below["power"])
    return Transition(duration_s, power_w, read_share(below["failure_probability"]))

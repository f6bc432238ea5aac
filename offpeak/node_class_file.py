"""Reads node classes: those that come with offpeak, and a site's own, from TOML.

A file has the keys `idle` and `running`, perhaps `repair`, and a table for each depth that its nodes have: [powersave],
[standby], [off].
"""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.node_class import Depth, NodeClass, Transition
from offpeak.node_class_keys import (
    EXAMPLES,
    Entry,
    entries_below,
    read_duration_s,
    read_power_w,
    read_repair_s,
    read_share,
)
from offpeak.node_states import DEPTHS
from offpeak.suggest import did_you_mean

BUNDLED = files("offpeak") / "node_classes"


def node_class_named(text: str) -> NodeClass:
    """Return the bundled class of that name, else the class in the TOML file; BadInput if it is neither."""
    if text in bundled_names():
        return bundled_node_class(text)
    path = Path(text).expanduser()
    if path.suffix == ".toml" or path.exists():
        return read_node_class(path)
    hint = f"{did_you_mean(text, bundled_names())}; or name a TOML file"
    raise BadInput(f"{text!r} is no node class", hint=hint)


def bundled_names() -> tuple[str, ...]:
    """Return the names of the classes that come with offpeak."""
    return tuple(sorted(Path(file.name).stem for file in BUNDLED.iterdir() if file.name.endswith(".toml")))


def bundled_node_class(name: str) -> NodeClass:
    """Return the class of one of `bundled_names`; its file says where the figures are from."""
    file = BUNDLED / f"{name}.toml"
    return _node_class(file.read_bytes(), name, file.name)


def read_node_class(path: Path) -> NodeClass:
    """Return the class that a TOML file describes, called like the file; BadInput with the file, the key and a hint."""
    return _node_class(read_bytes(path, BadInput), path.stem, str(path))


def _node_class(text: bytes, name: str, file: str) -> NodeClass:
    top = entries_below(Entry(file, "", _parsed(text, file)), ("idle", "running"), optional=("repair", *DEPTHS))
    idle_w = read_power_w(top["idle"])
    repair_s = read_repair_s(top["repair"]) if "repair" in top else None
    depths = tuple(_depths(top, idle_w))
    if repair_s is not None and any(depth.leave.failure_probability == 1 for depth in depths):
        hint = "a node that never comes up again is not repaired: leave repair out, or give a probability below 1"
        raise top["repair"].wrong("goes with a wake that always fails", hint=hint)
    return NodeClass(name, idle_w, _running(top["running"], idle_w), depths, repair_s)


def _parsed(text: bytes, file: str) -> dict[str, object]:
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise BadInput(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from None
    except tomllib.TOMLDecodeError as problem:
        hint = f"the file is TOML: text stands in quotes, as in idle = {EXAMPLES['idle']}"
        raise BadInput(f"{file}: {problem}", hint=hint) from None


def _running(curve: Entry, idle_w: float) -> tuple[tuple[float, float], ...]:
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


def _points(curve: Entry) -> Iterator[tuple[float, float]]:
    hint = f"write it like {EXAMPLES['running']}"
    if not isinstance(curve.written, list):
        raise curve.wrong("is no list of points", hint=hint)
    for point in curve.written:
        if not isinstance(point, list) or len(point) != 2:
            raise curve.wrong(f"{point!r} is no point", hint=hint)
        yield read_share(replace(curve, written=point[0])), read_power_w(replace(curve, written=point[1]))


def _depths(top: dict[str, Entry], idle_w: float) -> Iterator[Depth]:
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


def _depth(table: Entry, number: int) -> Depth:
    below = entries_below(table, ("power", "enter", "leave"))
    return Depth(number, read_power_w(below["power"]), _transition(below["enter"]), _transition(below["leave"]))


def _transition(table: Entry) -> Transition:
    below = entries_below(table, ("duration", "power", "failure_probability"))
    duration_s, power_w = read_duration_s(below["duration"]), read_power_w(below["power"])
    return Transition(duration_s, power_w, read_share(below["failure_probability"]))

"""Reads state files: a snapshot as JSON. Errors name the wrong key.

A site's own program may write such a file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from offpeak.model.snapshot import NEVER, QueuedJobs, RunningJobs, Snapshot
from offpeak.prices.peak import Peak
from offpeak.text import did_you_mean

VERSION = 1
WITHOUT_DEPTH = {"active": ACTIVE, "failed": FAILED}
WITH_DEPTH = {"going_down": going_down, "asleep": asleep, "coming_up": coming_up}
MOVING = ("going_down", "coming_up")
NOT_GIVEN = {"latest_end_s": NEVER, "node_power_w": 0}
"""The optional keys of a job, and their values in a snapshot if a file does not have them."""
PEAK_NAMES = {"off-peak": Peak.OFF_PEAK, "on-peak": Peak.ON_PEAK, "unknown": Peak.UNKNOWN}


LARGEST_NUMBER = 2**53
"""The largest number in a file: larger ones lose digits in many programs that write JSON."""


@dataclass(frozen=True)
class SnapshotRow:
    """A JSON object of the file with its dotted key: "" for the whole file, "queued[17]" for a row."""

    file: str
    key: str
    written: dict[str, Any]

    def wrong(self, key: str, what: str, *, hint: str) -> BadInput:
        """Return an error about one of the row's keys."""
        return BadInput(f"{self.file}: {self.at(key)}: {what}", hint=hint)

    def at(self, key: str) -> str:
        """Return the dotted key of one of the row's keys."""
        return f"{self.key}.{key}" if self.key else key

    def number(self, key: str, *, least: int = -LARGEST_NUMBER, most: int = LARGEST_NUMBER) -> int:
        """Return the whole number at `key`. Raises BadInput unless it is from `least` to `most`."""
        number = self.value(key)
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.wrong(key, f"{number!r} is no whole number", hint="write it without quotes and decimals")
        if number < least:
            raise self.wrong(key, f"{number:,} is too small", hint=f"it is at least {least:,}")
        if number > most:
            raise self.wrong(key, f"{number:,} is too large", hint=f"it is at most {most:,}")
        return number

    def choice(self, key: str, known: tuple[str, ...]) -> str:
        """Return the text at `key`. Raises BadInput unless it is one of the known ones."""
        choice = self.value(key)
        if choice not in known:
            raise self.wrong(key, f"{choice!r} is unknown", hint=did_you_mean(str(choice), known))
        return str(choice)

    def value(self, key: str) -> object:
        """Return the value at `key`. Raises BadInput if there is none."""
        if key not in self.written:
            raise self.wrong(key, "is missing", hint=self._how_to_spell(key))
        return self.written[key]

    def row(self, key: str) -> "SnapshotRow":
        """Return the object at `key`. Raises BadInput if there is none."""
        return self.below(self.at(key), self.value(key))

    def rows(self, key: str) -> Iterator["SnapshotRow"]:
        """Return the objects of the list at `key`. Raises BadInput if there is none."""
        listed = self.value(key)
        if not isinstance(listed, list):
            raise self.wrong(key, "is no list", hint="write a list of objects in []; it may be empty")
        return (self.below(f"{self.at(key)}[{at}]", written) for at, written in enumerate(listed))

    def below(self, key: str, written: object) -> "SnapshotRow":
        """Return the object at a dotted key of the file. Raises BadInput if the value is not an object."""
        if not isinstance(written, dict):
            where = f"{self.file}: {key}" if key else self.file
            raise BadInput(f"{where}: is no object", hint='write it in {}, as in {"size": 1}')
        return SnapshotRow(self.file, key, written)

    def only(self, *known: str) -> "SnapshotRow":
        """Return the row. Raises BadInput if it has an unknown key."""
        for key in self.written:
            if key not in known:
                raise self.wrong(key, "is no key of a state file", hint=did_you_mean(key, known))
        return self

    def _how_to_spell(self, key: str) -> str:
        near = [written for written in self.written if written.casefold() == key.casefold()]
        return f"write {key!r} for {near[0]!r}" if near else f"add {key!r}, in s where it ends in _s"


SNAPSHOT_KEYS = ("version", "now_s", "units_per_node", "wake_s", "nodes", "running", "queued", "peaks")
RUNNING_KEYS = ("size", "submit_s", "start_s", "expected_end_s")
QUEUED_KEYS = ("size", "submit_s", "estimate_s", "latest_end_s", "node_power_w")
MOST_NODES = 1_000_000
"""A larger count is a typing error and would fill the memory."""


def read_snapshot(path: Path) -> Snapshot:
    """Return the snapshot in a state file. Raises BadInput with the file, the key and a hint."""
    top = SnapshotRow(str(path), "", {}).below("", _parse_json(read_bytes(path, BadInput), str(path)))
    version = top.number("version")
    if version != VERSION:
        hint = f"this offpeak reads version {VERSION}: write the file again, or use the offpeak that wrote it"
        raise top.wrong("version", f"the file is of version {version}", hint=hint)
    return _check_units_in_use(top, _read_snapshot(top.only(*SNAPSHOT_KEYS)))


def _read_snapshot(top: SnapshotRow) -> Snapshot:
    now_s, units_per_node = top.number("now_s"), top.number("units_per_node", least=1, most=MOST_NODES)
    wake = top.row("wake_s").only(*DEPTHS)
    state, ready_s = _to_columns(
        [node for row in top.rows("nodes") for node in _read_nodes(row, now_s)], ("state", "ready_s")
    )
    if not len(state):
        raise top.wrong("nodes", "is empty", hint='add {"state": "active", "count": 100}')
    most = len(state) * units_per_node
    size, submit_s, estimate_s, latest_end_s, node_power_w = _to_columns(
        [_read_queued(row, most, now_s) for row in top.rows("queued")], QUEUED_KEYS
    )
    peak_from_s, peak = _to_columns(_read_peaks(top), ("from_s", "peak"))
    return Snapshot(
        now_s=now_s,
        units_per_node=units_per_node,
        node_state=state.astype(np.int8),
        ready_s=ready_s,
        wake_s=tuple(wake.number(depth, least=0) for depth in DEPTHS),
        running=RunningJobs(*_to_columns([_read_running(row, most) for row in top.rows("running")], RUNNING_KEYS)),
        queued=QueuedJobs(size, submit_s, estimate_s, latest_end_s, node_power_w.astype(np.float64)),
        peak_from_s=peak_from_s,
        peak=peak.astype(np.int8),
    )


def _parse_json(text: bytes, file: str) -> object:
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        raise BadInput(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from None
    except json.JSONDecodeError as problem:
        hint = "state files are JSON; `python3 -m json.tool FILE` checks one"
        raise BadInput(f"{file}:{problem.lineno}: no JSON: {problem.msg}", hint=hint) from None
    except (RecursionError, ValueError):
        raise BadInput(f"{file}: is no state file", hint="it has an object of three levels and short numbers") from None


def _read_nodes(row: SnapshotRow, now_s: int) -> list[tuple[int, int]]:
    """Return state and `ready_s` of each node of the row."""
    name = row.choice("state", (*WITHOUT_DEPTH, *WITH_DEPTH))
    keys = ["state", "count", *(["depth"] if name in WITH_DEPTH else []), *(["ready_s"] if name in MOVING else [])]
    row.only(*keys)
    state = WITHOUT_DEPTH.get(name, ACTIVE)
    if name in WITH_DEPTH:
        state = WITH_DEPTH[name](DEPTHS.index(row.choice("depth", DEPTHS)))
    return [(state, row.number("ready_s") if name in MOVING else now_s)] * row.number("count", least=1, most=MOST_NODES)


def _to_columns(rows: list[tuple[int, ...]], names: tuple[str, ...]) -> list[Int64]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, len(names)).T)


def _read_size(row: SnapshotRow, most: int) -> int:
    size = row.number("size", least=1)
    if size > most:
        hint = "leave out jobs that can never run, or correct the nodes"
        raise row.wrong("size", f"{size:,} units are more than the machine's {most:,}", hint=hint)
    return size


def _read_running(row: SnapshotRow, most: int) -> tuple[int, ...]:
    row.only(*RUNNING_KEYS)
    size, submit_s, start_s = _read_size(row, most), row.number("submit_s"), row.number("start_s")
    if start_s < submit_s:
        raise row.wrong("start_s", f"{start_s} lies before submit_s {submit_s}", hint="correct one of the two")
    end_s = row.number("expected_end_s")
    if end_s <= start_s:
        raise row.wrong("expected_end_s", f"{end_s} is no later than start_s {start_s}", hint="correct one of the two")
    return size, submit_s, start_s, end_s


def _read_queued(row: SnapshotRow, most: int, now_s: int) -> tuple[int, ...]:
    row.only(*QUEUED_KEYS)
    size, submit_s = _read_size(row, most), row.number("submit_s")
    if submit_s > now_s:
        raise row.wrong("submit_s", f"{submit_s} lies after now_s {now_s}", hint="leave out jobs of the future")
    optional = [row.number(key) if key in row.written else usual for key, usual in NOT_GIVEN.items()]
    if optional[-1] < 0:
        raise row.wrong("node_power_w", f"{optional[-1]} is too small", hint="it is at least 0")
    return size, submit_s, row.number("estimate_s", least=0), *optional


def _read_peaks(top: SnapshotRow) -> list[tuple[int, ...]]:
    """Return the changes of the price's state; none if the file does not have them."""
    rows = [row.only("from_s", "peak") for row in (top.rows("peaks") if "peaks" in top.written else ())]
    changes: list[tuple[int, ...]] = [
        (row.number("from_s"), int(PEAK_NAMES[row.choice("peak", tuple(PEAK_NAMES))])) for row in rows
    ]
    for row, before, change in zip(rows[1:], changes, changes[1:], strict=False):
        if change[0] <= before[0]:
            raise row.wrong("from_s", f"{change[0]} is no later than that of the row before", hint="sort the rows")
    return changes


def _check_units_in_use(top: SnapshotRow, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot. Raises BadInput if more units are in use than the nodes that are up or coming up have."""
    up = [ACTIVE, *(coming_up(depth) for depth in range(len(DEPTHS)))]
    units = int(np.isin(snapshot.node_state, up).sum()) * snapshot.units_per_node
    if snapshot.units_in_use > units:
        what = f"jobs hold {snapshot.units_in_use:,} units, and nodes that are up or coming up have {units:,}"
        raise top.wrong("running", what, hint="correct the sizes, or the states of the nodes")
    return snapshot

"""State files, read: the JSON of power.snapshot_json, which a site's own program may have written."""

import json
from pathlib import Path

import numpy as np

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Int64
from offpeak.model.node_states import ACTIVE, DEPTHS, coming_up
from offpeak.model.snapshot import NEVER, QueuedJobs, RunningJobs, Snapshot
from power.snapshot_json import MOVING, VERSION, WITH_DEPTH, WITHOUT_DEPTH
from power.snapshot_rows import Row

KEYS = ("version", "now_s", "units_per_node", "wake_s", "nodes", "running", "queued")
RUNNING = ("size", "submit_s", "start_s", "expected_end_s")
QUEUED = ("size", "submit_s", "estimate_s", "latest_end_s")
MOST_NODES = 1_000_000
"""A count beyond this is a slip of the pen, and would fill the memory."""


def read_snapshot(path: Path) -> Snapshot:
    """Return the snapshot in a state file; BadInput with the file, the key and a hint where it is wrong."""
    top = Row(str(path), "", {}).below("", _parsed(read_bytes(path, BadInput), str(path)))
    version = top.number("version")
    if version != VERSION:
        hint = f"this offpeak reads version {VERSION}: write the file anew, or use the offpeak that wrote it"
        raise top.wrong("version", f"the file is of version {version}", hint=hint)
    return _checked(top, _snapshot(top.only(*KEYS)))


def _snapshot(top: Row) -> Snapshot:
    now_s, units_per_node = top.number("now_s"), top.number("units_per_node", least=1, most=MOST_NODES)
    wake = top.row("wake_s").only(*DEPTHS)
    state, ready_s = _columns([node for row in top.rows("nodes") for node in _nodes(row, now_s)], ("state", "ready_s"))
    if not len(state):
        raise top.wrong("nodes", "is empty", hint='add {"state": "active", "count": 100}')
    most = len(state) * units_per_node
    return Snapshot(
        now_s,
        units_per_node,
        state.astype(np.int8),
        ready_s,
        tuple(wake.number(depth, least=0) for depth in DEPTHS),
        RunningJobs(*_columns([_running(row, most) for row in top.rows("running")], RUNNING)),
        QueuedJobs(*_columns([_queued(row, most, now_s) for row in top.rows("queued")], QUEUED)),
    )


def _parsed(text: bytes, file: str) -> object:
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        raise BadInput(f"{file}: is not UTF-8 text", hint="save it as UTF-8") from None
    except json.JSONDecodeError as problem:
        hint = "state files are JSON; `python3 -m json.tool FILE` checks one"
        raise BadInput(f"{file}:{problem.lineno}: no JSON: {problem.msg}", hint=hint) from None
    except (RecursionError, ValueError):
        raise BadInput(f"{file}: is no state file", hint="it has an object of three levels and short numbers") from None


def _nodes(row: Row, now_s: int) -> list[tuple[int, int]]:
    """Return state and `ready_s` of each node that the row stands for."""
    name = row.word("state", (*WITHOUT_DEPTH, *WITH_DEPTH))
    keys = ["state", "count", *(["depth"] if name in WITH_DEPTH else []), *(["ready_s"] if name in MOVING else [])]
    row.only(*keys)
    state = WITHOUT_DEPTH.get(name, ACTIVE)
    if name in WITH_DEPTH:
        state = WITH_DEPTH[name](DEPTHS.index(row.word("depth", DEPTHS)))
    return [(state, row.number("ready_s") if name in MOVING else now_s)] * row.number("count", least=1, most=MOST_NODES)


def _columns(rows: list[tuple[int, ...]], names: tuple[str, ...]) -> list[Int64]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, len(names)).T)


def _size(row: Row, most: int) -> int:
    size = row.number("size", least=1)
    if size > most:
        hint = "leave out jobs that can never run, or correct the nodes"
        raise row.wrong("size", f"{size:,} units are more than the machine's {most:,}", hint=hint)
    return size


def _running(row: Row, most: int) -> tuple[int, ...]:
    row.only(*RUNNING)
    size, submit_s, start_s = _size(row, most), row.number("submit_s"), row.number("start_s")
    if start_s < submit_s:
        raise row.wrong("start_s", f"{start_s} lies before submit_s {submit_s}", hint="correct one of the two")
    end_s = row.number("expected_end_s")
    if end_s <= start_s:
        raise row.wrong("expected_end_s", f"{end_s} is no later than start_s {start_s}", hint="correct one of the two")
    return size, submit_s, start_s, end_s


def _queued(row: Row, most: int, now_s: int) -> tuple[int, ...]:
    row.only(*QUEUED)
    size, submit_s = _size(row, most), row.number("submit_s")
    if submit_s > now_s:
        raise row.wrong("submit_s", f"{submit_s} lies after now_s {now_s}", hint="leave out jobs of the future")
    latest_end_s = row.number("latest_end_s") if "latest_end_s" in row.written else NEVER
    return size, submit_s, row.number("estimate_s", least=0), latest_end_s


def _checked(top: Row, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot; BadInput if more units are in use than nodes have that are up or coming up."""
    up = [ACTIVE, *(coming_up(depth) for depth in range(len(DEPTHS)))]
    units = int(np.isin(snapshot.node_state, up).sum()) * snapshot.units_per_node
    if snapshot.units_in_use > units:
        what = f"jobs hold {snapshot.units_in_use:,} units, and nodes that are up or coming up have {units:,}"
        raise top.wrong("running", what, hint="correct the sizes, or the states of the nodes")
    return snapshot

"""State files, written: a snapshot as JSON, a line for each job."""

import json
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

from offpeak.files import replacing
from offpeak.model.node_states import ACTIVE, DEPTHS, FAILED, asleep, coming_up, going_down
from offpeak.model.snapshot import NEVER, QueuedJobs, RunningJobs, Snapshot

VERSION = 1
WITHOUT_DEPTH = {"active": ACTIVE, "failed": FAILED}
WITH_DEPTH = {"going_down": going_down, "asleep": asleep, "coming_up": coming_up}
MOVING = ("going_down", "coming_up")


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write a state file; CannotWrite if it fails."""
    with replacing(path) as file:
        file.write(snapshot_json(snapshot).encode())


def snapshot_json(snapshot: Snapshot) -> str:
    """Return the text of a state file."""
    entries = {
        "version": str(VERSION),
        "now_s": str(snapshot.now_s),
        "units_per_node": str(snapshot.units_per_node),
        "wake_s": json.dumps(dict(zip(DEPTHS, snapshot.wake_s, strict=True))),
        "nodes": _lines(_node_rows(snapshot)),
        "running": _lines(_job_rows(snapshot.running)),
        "queued": _lines(_job_rows(snapshot.queued)),
    }
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in entries.items()) + "\n}\n"


def _lines(rows: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]" if rows else "[]"


def _job_rows(jobs: RunningJobs | QueuedJobs) -> list[dict[str, Any]]:
    names = [column.name for column in fields(jobs)]
    columns = [getattr(jobs, name).tolist() for name in names]
    rows = (zip(names, row, strict=True) for row in zip(*columns, strict=True))
    return [{name: value for name, value in row if value != NEVER} for row in rows]


def _node_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    nodes = zip(snapshot.node_state.tolist(), snapshot.ready_s.tolist(), strict=True)
    return [_node_row(*node, count=len(list(alike))) for node, alike in groupby(nodes)]


def _node_row(state: int, ready_s: int, *, count: int) -> dict[str, Any]:
    for name, plain in WITHOUT_DEPTH.items():
        if state == plain:
            return {"state": name, "count": count}
    for name, state_of in WITH_DEPTH.items():
        for number, depth in enumerate(DEPTHS):
            if state == state_of(number):
                ready = {"ready_s": ready_s} if name in MOVING else {}
                return {"state": name, "depth": depth, **ready, "count": count}
    raise AssertionError(f"no state of a node: {state}")

"""Makes docs/examples/state.json from the bundled sample log: `python docs/example_state.py`."""

import json
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from offpeak.files import replacing
from offpeak.model.node_states import ACTIVE, DEPTHS, OFF, asleep
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.prices.peak import Peak
from offpeak.settings.replay import SchedulingSettings
from power.whatif.snapshot_file import MOVING, NOT_GIVEN, PEAK_NAMES, VERSION, WITH_DEPTH, WITHOUT_DEPTH
from sim_backend.replay.policy import parse_policy
from sim_backend.replay.schedule import replay
from sim_backend.sample import MONDAY, NODES, SAMPLE_LOG
from sim_backend.traces.swf.read import read_swf

FILE = Path(__file__).parent / "examples" / "state.json"
ZERO_S = int(MONDAY.timestamp())
AT_S = 3_888_000
ASLEEP = 12
WAKE_S = (1, 20, 180)


def example() -> Snapshot:
    """Return the sample's cluster at one second of its EASY replay, with a few of its nodes off."""
    jobs = read_swf(SAMPLE_LOG).jobs
    schedule = replay(jobs, jobs.node_power_w, machine_size=NODES, policy=parse_policy("easy", SchedulingSettings()))
    now_s = AT_S + ZERO_S
    submit_s, start_s, end_s = (at_s + ZERO_S for at_s in (jobs.submit_s, schedule.start_s, schedule.end_s))
    runs = np.flatnonzero((start_s <= now_s) & (end_s > now_s))
    runs = runs[np.argsort(start_s[runs], kind="stable")]
    waits = np.flatnonzero((submit_s <= now_s) & (start_s > now_s))
    expected_end_s = start_s + jobs.estimate_s
    node_state = np.full(NODES, ACTIVE, dtype=np.int8)
    node_state[NODES - ASLEEP :] = asleep(OFF)
    running = RunningJobs(jobs.size[runs], submit_s[runs], start_s[runs], expected_end_s[runs])
    queued = QueuedJobs(jobs.size[waits], submit_s[waits], jobs.estimate_s[waits])
    return Snapshot(now_s, 1, node_state, np.full(NODES, now_s), WAKE_S, running, queued)


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write a state file. Raises CannotWrite."""
    with replacing(path) as file:
        file.write(snapshot_json(snapshot).encode())


def snapshot_json(snapshot: Snapshot) -> str:
    """Return the text of a state file."""
    entries = {
        "version": str(VERSION),
        "now_s": str(snapshot.now_s),
        "units_per_node": str(snapshot.units_per_node),
        "wake_s": json.dumps(dict(zip(DEPTHS, snapshot.wake_s, strict=True))),
        "nodes": _format_list(_node_rows(snapshot)),
        "running": _format_list(_job_rows(snapshot.running)),
        "queued": _format_list(_job_rows(snapshot.queued)),
    }
    if len(snapshot.peak):
        entries["peaks"] = _format_list(_peak_rows(snapshot))
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in entries.items()) + "\n}\n"


def _format_list(rows: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]" if rows else "[]"


def _job_rows(jobs: RunningJobs | QueuedJobs) -> list[dict[str, Any]]:
    names = [column.name for column in fields(jobs)]
    columns = [getattr(jobs, name).tolist() for name in names]
    rows = (zip(names, row, strict=True) for row in zip(*columns, strict=True))
    return [{name: round(value) for name, value in row if value != NOT_GIVEN.get(name)} for row in rows]


def _peak_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    names = {state: name for name, state in PEAK_NAMES.items()}
    changes = zip(snapshot.peak_from_s.tolist(), snapshot.peak.tolist(), strict=True)
    return [{"from_s": from_s, "peak": names[Peak(state)]} for from_s, state in changes]


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


if __name__ == "__main__":
    write_snapshot(example(), FILE)

"""Makes docs/examples/state.json from the bundled sample log: `python docs/example_state.py`."""

from pathlib import Path

import numpy as np

from offpeak.model.node_states import ACTIVE, OFF, asleep
from offpeak.model.snapshot import QueuedJobs, RunningJobs, Snapshot
from offpeak.settings.replay import SchedulingSettings
from power.whatif.snapshot_file import write_snapshot
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


if __name__ == "__main__":
    write_snapshot(example(), FILE)

"""Nodes that sleep: a whole log with time-outs, and with a what-if every hour."""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.bars import Measured
from benchmarks.logs import rebuilt_logs
from offpeak.model.jobs import Jobs
from offpeak.model.node_class_file import bundled_node_class
from offpeak.plugin.capacity.port import Fleet
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.replay.equal_nodes import PoweredMachine, replay_powered
from offpeak.sim_backend.replay.policy import parse_policy

NODE_CLASS = bundled_node_class("server")
BARS_S = {"timeout:5min": float("inf"), "ols:1h": 60.0}


def capacity_benchmarks() -> Iterator[Measured]:
    """Measure EASY on the largest of the small machines, transitions on, on one core."""
    logs, data = rebuilt_logs()
    name = list(logs)[3]
    jobs, size = logs[name]
    for capacity, bar_s in BARS_S.items():
        replay_s(jobs.take(np.arange(1000)), size, capacity)
        measured_s = replay_s(jobs, size, capacity)
        yield Measured(f"EASY with {capacity}, transitions on, {name}", measured_s, "s", bar_s, False, data)


def replay_s(jobs: Jobs, size: int, capacity: str) -> float:
    """Return how long a replay takes."""
    policy = parse_policy("easy", SchedulingSettings())
    fleet = Fleet(nodes=size, units_per_node=1, node_class=NODE_CLASS)
    chosen = make_capacity_policy(capacity, fleet, CapacitySettings())
    begin = time.perf_counter()
    replay_powered(jobs, jobs.node_power_w, PoweredMachine(size, 1, NODE_CLASS), policy, chosen)
    return time.perf_counter() - begin

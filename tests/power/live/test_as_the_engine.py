"""The same nodes sleep and wake on a live scheduler as in a replay, where it is told what the replay's engine knows."""

from types import SimpleNamespace

import numpy as np
import pytest
from scheduler_values import job_of, node_of, record_of
from small_site import HARDWARE, SERVER, cluster_snapshot, site_of

from offpeak.model.jobs import Jobs
from offpeak.model.node_states import ACTIVE, OFF, asleep, coming_up, going_down
from offpeak.model.orders import NodeChange, NodeState, PowerState
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from plugin.capacity.port import Fleet
from plugin.scheduler.job import JobState
from plugin.scheduler.node import NodeUse
from power.capacity.registry import make_capacity_policy
from power.lifecycle.node_record import Instant
from power.live.cluster_snapshot import NodeMemory, PowerMemory
from power.live.power_plan import plan_power
from sim_backend.engine.advance_powered import CAPACITY, PoweredRules, advance_powered
from sim_backend.engine.power import all_active
from sim_backend.engine.state import new_state
from sim_backend.replay.policy import parse_policy
from sim_backend.replay.powered import depth_table, snapshot_of
from sim_backend.replay.schedule import NO_PEAKS, workload_of

NODES, JOBS, DAYS = 12, 60, 2
BEGAN_S = 1_800_000_000
"""The Unix time of the replay's second 0."""

LIKE = {
    ACTIVE: (PowerState.ON, NodeState.ON),
    going_down(OFF): (PowerState.POWERING_OFF, NodeState.GOING_DOWN),
    asleep(OFF): (PowerState.OFF, NodeState.OFF),
    coming_up(OFF): (PowerState.POWERING_ON, NodeState.BOOTING),
}
ONLY_OFF = {"depths": ("off",)}


def replay(capacity, seed: int) -> SimpleNamespace:
    """Return an engine before its first event, with random jobs on twelve nodes."""
    random = np.random.default_rng(seed)
    submit_s = np.sort(random.integers(0, DAYS * 86_400, JOBS))
    run_s, none = random.integers(600, 20_000, JOBS), np.full(JOBS, -1)
    size = random.integers(1, 6, JOBS)
    jobs = Jobs(np.arange(JOBS), submit_s, run_s, run_s, size, none, none, none, none, none, none * np.nan)
    policy = parse_policy("easy", SchedulingSettings())
    workload = workload_of(jobs, np.ones(JOBS), policy)
    state = new_state(workload, policy.rules, machine_size=NODES)
    power = all_active(capacity.rules, machine_size=NODES, units_per_node=1, slots=len(state.slots.job), jobs=JOBS,
                       begin_s=int(state.scalars["now_s"][0]), rest_until_s=DAYS * 86_400)  # fmt: skip
    return SimpleNamespace(
        workload=workload, policy=policy, state=state, power=power, depths=depth_table(SERVER, 1), capacity=capacity
    )


def advanced(engine, until_s: int) -> None:
    """Let the engine go on up to that second."""
    while True:
        rules, schedule = engine.capacity.rules, engine.capacity.schedule
        powered = PoweredRules(engine.policy.rules, rules, schedule, engine.depths, NODES)
        if advance_powered(engine.workload, NO_PEAKS, powered, engine.state, engine.power, until_s) != CAPACITY:
            return
        targets = engine.capacity.decide(seen(engine))
        engine.power.scalars["target"], engine.power.scalars["reserve"] = targets.awake, targets.reserve


def seen(engine):
    return snapshot_of(engine.workload, engine.state, engine.power, engine.depths)


def entered(engine, state: int, at_s: int) -> set[str]:
    """Return the nodes without a job that entered the state in that second."""
    log, length = engine.power.log, int(engine.power.scalars["log_length"][0])
    rows = zip(log.at_s[:length], log.node[:length], log.state[:length], strict=True)
    busy = engine.power.table.busy
    return {name(node) for second, node, row in rows if second == at_s and row == state and busy[node] == 0}


def name(node: int) -> str:
    return f"n{node + 1:02}"


def live_plan(engine, at_s: int, site):
    """Return what the power loop plans when it sees what the engine knows."""
    table, snapshot = engine.power.table, seen(engine)
    nodes, records, known = [], {}, {}
    for number, state in enumerate(table.state.tolist()):
        power, observed = LIKE[state]
        used = NodeUse.USED if table.busy[number] else NodeUse.FREE
        idle_since_s, woken_s = BEGAN_S + int(table.idle_since_s[number]), BEGAN_S + int(table.woken_s[number])
        nodes.append(node_of(name(number), use=used, power=power, idle_since_s=idle_since_s))
        records[name(number)] = record_of(name(number), observed)
        known[name(number)] = NodeMemory(state == ACTIVE, idle_since_s, woken_s)
    running, queued = snapshot.running, snapshot.queued
    rows = zip(running.size, BEGAN_S + running.submit_s, BEGAN_S + running.start_s,
               running.expected_end_s - running.start_s, strict=True)  # fmt: skip
    jobs = [
        job_of(f"r{row}", nodes=int(size), submit_s=int(submit_s), start_s=int(start_s), limit_s=int(limit_s),
               state=JobState.RUNNING)
        for row, (size, submit_s, start_s, limit_s) in enumerate(rows)
    ]  # fmt: skip
    waiting = enumerate(zip(queued.size, BEGAN_S + queued.submit_s, queued.estimate_s, strict=True))
    # The scheduler has looked at them: it plans them for later.
    jobs += [
        job_of(f"q{row}", nodes=int(size), submit_s=int(submit_s), limit_s=int(limit_s), priority=-row,
               start_s=BEGAN_S + 10**6)
        for row, (size, submit_s, limit_s) in waiting
    ]  # fmt: skip
    snapshot = cluster_snapshot(nodes, jobs=jobs, records=records, now=Instant(1e9, float(BEGAN_S + at_s)))
    return plan_power(snapshot, site=site, memory=PowerMemory(known))


def is_quiet(engine, at_s: int) -> bool:
    """Whether nothing but the capacity policy acts in that second."""
    end_s = engine.state.start_s + engine.workload.runtime_s
    return at_s not in engine.workload.submit_s and at_s not in end_s and at_s not in engine.power.ready_s


def changed_nodes(plan, change: NodeChange) -> set[str]:
    return {each.node for each in plan.changes if each.change is change}


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        ("timeout:10min", {}),
        ("timeout:30min", {"keep_hot": 3}),
        ("timeout:20min", {"min_awake_s": 4000}),
        ("break-even", {"order": "idle-age"}),
        ("ols:1h", {}),
        ("ols:20min:2", {"keep_hot": 2}),
        ("ols:20min:1", {}),
    ],
)
def test_the_same_nodes_are_chosen(policy, bounds) -> None:
    settings = CapacitySettings(**(ONLY_OFF | bounds))
    site = site_of(NODES, capacity=policy, bounds=settings, hardware=HARDWARE, cycles_per_day=0)
    capacity = make_capacity_policy(policy, Fleet(NODES, 1, SERVER), settings)
    chosen = 0
    for seed in range(1, 9):
        engine = replay(capacity, seed)
        whole = replay(capacity, seed)
        advanced(whole, DAYS * 86_400)
        seconds = np.unique(whole.power.log.at_s[: int(whole.power.scalars["log_length"][0])])
        period_s = capacity.rules.period_s
        begin_s = int(engine.state.scalars["now_s"][0])
        for at_s in (int(each) for each in seconds if not period_s or (each - begin_s) % period_s == 0):
            advanced(engine, at_s - 1)
            if at_s <= begin_s or not is_quiet(engine, at_s):
                continue
            plan = live_plan(engine, at_s, site)
            advanced(engine, at_s)
            down = entered(engine, going_down(OFF), at_s)
            assert changed_nodes(plan, NodeChange.CLOSE) == down, (at_s, plan.decisions)
            if period_s:
                assert changed_nodes(plan, NodeChange.POWER_UP) == entered(engine, coming_up(OFF), at_s)
            chosen += len(down)
    assert chosen > 3

"""On a live scheduler the same nodes sleep and wake as in a replay, and the same run times are predicted."""

from dataclasses import replace

import numpy as np
import pytest
from scheduler_values import job_of, node_of, record_of
from small_site import HARDWARE, SERVER, cluster_snapshot, rows_of, site_of

from offpeak.model.jobs import Jobs
from offpeak.model.node_states import ACTIVE, OFF, asleep, coming_up, going_down
from offpeak.model.orders import NodeChange, NodeState, PowerState
from offpeak.plugin.capacity.port import Fleet
from offpeak.plugin.scheduler.job import JobState
from offpeak.plugin.scheduler.node import NodeUse
from offpeak.power.capacity.registry import make_capacity_policy
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.live.cluster_snapshot import NodeMemory
from offpeak.power.live.pools import find_pools, observe_pool
from offpeak.power.live.power_plan import PowerMemory, plan_power
from offpeak.services.accounts.ended_jobs import EndedJob
from offpeak.services.accounts.job_forecasts import RunTimes
from offpeak.settings.capacity import CapacitySettings
from offpeak.settings.replay import SchedulingSettings
from offpeak.sim_backend.engine.power import Power
from offpeak.sim_backend.replay.equal_nodes import NO_JOBS, PoweredMachine, unit_replay
from offpeak.sim_backend.replay.policy import parse_policy
from offpeak.sim_backend.replay.replay import Replay

NODES, JOBS, DAYS = 12, 60, 2
USERS = 5
BEGAN_S = 1_800_000_000
"""The Unix time of the replay's second 0."""

LIKE = {
    ACTIVE: (PowerState.ON, NodeState.ON),
    going_down(OFF): (PowerState.POWERING_OFF, NodeState.GOING_DOWN),
    asleep(OFF): (PowerState.OFF, NodeState.OFF),
    coming_up(OFF): (PowerState.POWERING_ON, NodeState.BOOTING),
}
ONLY_OFF = {"depths": ("off",)}


def replay(capacity, seed: int) -> Replay:
    """Return an engine before its first event, with random jobs on twelve nodes whose limits are their run times."""
    random = np.random.default_rng(seed)
    submit_s = np.sort(random.integers(0, DAYS * 86_400, JOBS))
    run_s, none = random.integers(600, 20_000, JOBS), np.full(JOBS, -1)
    size = random.integers(1, 6, JOBS)
    jobs = Jobs(np.arange(JOBS), submit_s, run_s, run_s, size, none, none, none, none, none, none * np.nan)
    return engine_of(jobs, replace(capacity, by_limits=True), NO_JOBS)


def engine_of(jobs: Jobs, capacity, without_limit: np.ndarray) -> Replay:
    """Return an engine before its first event."""
    policy = replace(parse_policy("easy", SchedulingSettings()), capacity=(capacity,))
    machine = PoweredMachine(NODES, 1, SERVER)
    engine = unit_replay(jobs, np.ones(len(jobs)), machine, policy, without_limit=without_limit)
    engine.rest_until(DAYS * 86_400)
    return engine


def power_of(engine: Replay) -> Power:
    """Return the power of its nodes."""
    return engine.state.sleeping.power


def entered(engine, state: int, at_s: int) -> set[str]:
    """Return the nodes without a job that entered the state in that second."""
    log, length = power_of(engine).log, int(power_of(engine).scalars["log_length"][0])
    rows = zip(log.at_s[:length], log.node[:length], log.state[:length], strict=True)
    busy = power_of(engine).table.busy
    return {name(node) for second, node, row in rows if second == at_s and row == state and busy[node] == 0}


def name(node: int) -> str:
    return f"n{node + 1:02}"


def live_plan(engine, at_s: int, site):
    """Return what the power loop plans when it sees what the engine knows."""
    table, snapshot = power_of(engine).table, engine.snapshot()
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
    return at_s not in engine.workload.submit_s and at_s not in end_s and at_s not in power_of(engine).ready_s


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
        ("planned:20min", {}),
        ("planned:1h", {"keep_hot": 2}),
    ],
)
def test_the_same_nodes_are_chosen(policy, bounds) -> None:
    settings = CapacitySettings(**(ONLY_OFF | bounds))
    is_planned = policy.startswith("planned")
    site = site_of(
        NODES, capacity=policy, bounds=settings, hardware=HARDWARE, cycles_per_day=0, limit_capacity=is_planned
    )
    capacity = make_capacity_policy(policy, Fleet(NODES, 1, SERVER), settings)
    chosen = woken = 0
    for seed in range(1, 9):
        engine = replay(capacity, seed)
        whole = replay(capacity, seed)
        whole.go_on(DAYS * 86_400)
        seconds = np.unique(power_of(whole).log.at_s[: int(power_of(whole).scalars["log_length"][0])])
        period_s = capacity.rules.period_s
        begin_s = int(engine.state.scalars["now_s"][0])
        for at_s in (int(each) for each in seconds if not period_s or (each - begin_s) % period_s == 0):
            engine.go_on(at_s - 1)
            if at_s <= begin_s or not is_quiet(engine, at_s):
                continue
            plan = live_plan(engine, at_s, site)
            engine.go_on(at_s)
            down = entered(engine, going_down(OFF), at_s)
            assert changed_nodes(plan, NodeChange.CLOSE) == down, (at_s, plan.decisions)
            if period_s or is_planned:
                up = entered(engine, coming_up(OFF), at_s)
                assert changed_nodes(plan, NodeChange.POWER_UP) == up, (at_s, plan.decisions)
                woken += len(up)
            chosen += len(down)
    assert chosen > 3
    assert woken > 3 or not is_planned


class LiveJobs:
    """The agent's forecasts of the jobs of a replay: it sees each job when it is submitted, and when it ends."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.times, self.seen_s = jobs, RunTimes(), -1

    def job(self, number: int, **given):
        """Return a job as the scheduler shows it: a fifth of the jobs has no time limit."""
        jobs = self.jobs
        return job_of(
            str(number), user=f"user{jobs.user[number]}", name=f"app{chr(65 + jobs.application[number])}_{number}",
            nodes=int(jobs.size[number]), submit_s=BEGAN_S + int(jobs.submit_s[number]), priority=-number,
            limit_s=None if number % 5 == 0 else int(jobs.estimate_s[number]), **given,
        )  # fmt: skip

    def catch_up(self, start_s: np.ndarray, now_s: int) -> None:
        """Show the submissions and the ends since the last time to the forecasts, in their order."""
        end_s = np.where(start_s < 0, now_s + 1, start_s + self.jobs.runtime_s)
        events = [(int(at_s), 1, number) for number, at_s in enumerate(self.jobs.submit_s)]
        events += [(int(at_s), 0, number) for number, at_s in enumerate(end_s)]
        for at_s, is_submission, number in sorted(each for each in events if self.seen_s < each[0] <= now_s):
            if is_submission:
                self.times.of([self.job(number)], at_s=BEGAN_S + at_s)
                continue
            begun_s, done_s = BEGAN_S + int(start_s[number]), BEGAN_S + at_s
            job = self.job(number, state=JobState.ENDED, start_s=begun_s, end_s=done_s, hosts="n01")
            self.times.learn([EndedJob(job, done_s)], at_s=done_s)
        self.seen_s = now_s

    def snapshot(self, engine, now_s: int):
        """Return the agent's snapshot of what the engine knows."""
        start_s, jobs = engine.state.start_s, self.jobs
        self.catch_up(start_s, now_s)
        listed = engine.state.expected[: engine.state.groups["listed"][0]]
        held = engine.state.slots.job[listed[np.argsort(engine.state.slots.started[listed], kind="stable")]].tolist()
        shown = [
            self.job(number, state=JobState.RUNNING, start_s=BEGAN_S + int(start_s[number]), hosts="n01")
            for number in held
        ]
        is_waiting = (start_s < 0) & (jobs.submit_s <= now_s)
        shown += [self.job(number) for number in np.flatnonzero(is_waiting).tolist()]
        nodes = [node_of(name(number)) for number in range(NODES)]
        run_s = self.times.of(shown, at_s=BEGAN_S + now_s)
        view = cluster_snapshot(nodes, jobs=shown, now=Instant(1e9, float(BEGAN_S + now_s)), run_s=run_s)
        rows = rows_of(view, site_of(NODES))
        (pool,) = find_pools(rows.values(), shown)
        return observe_pool(pool, rows, site=site_of(NODES), snapshot=view).snapshot


def repeating_jobs(seed: int) -> Jobs:
    """Return jobs of busy users, who repeat themselves, and of users with one job; some run longer than their limit."""
    random, count = np.random.default_rng(seed), 250
    submit_s = np.sort(random.integers(0, 6 * 86_400, count))
    user = np.where(random.random(count) < 0.8, random.integers(0, USERS, count), 100 + np.arange(count))
    application, none = random.integers(0, 3, count), np.full(count, -1)
    usual_s = np.random.default_rng(1).integers(600, 15_000, (1000, 3))
    run_s = usual_s[user, application] + random.integers(-300, 300, count)
    limit_s = np.where(random.random(count) < 0.05, run_s // 2, 2 * run_s)
    size = random.integers(1, 6, count)
    return Jobs(np.arange(count), submit_s, run_s, limit_s, size, user, none, none, application, none, none * np.nan)


@pytest.mark.parametrize("seed", range(1, 4))
def test_snapshots_of_the_engine_and_of_the_agent_have_the_same_run_times(seed: int) -> None:
    jobs = repeating_jobs(seed)
    capacity = make_capacity_policy("ols:1h", Fleet(NODES, 1, SERVER), CapacitySettings(**ONLY_OFF))
    engine, live = engine_of(jobs, capacity, jobs.job_id[::5]), LiveJobs(jobs)
    others, begin_s = 0, int(jobs.submit_s[0])
    for now_s in range(begin_s, begin_s + 6 * 86_400, 3600):
        engine.go_on(now_s)
        expected, found = engine.snapshot(), live.snapshot(engine, now_s)
        assert (found.running.expected_end_s - BEGAN_S).tolist() == expected.running.expected_end_s.tolist()
        assert found.queued.estimate_s.tolist() == expected.queued.estimate_s.tolist()
        assert (found.queued.submit_s - BEGAN_S).tolist() == expected.queued.submit_s.tolist()
        others += live.times.errors.used != live.times.errors.naive
    assert others > 20

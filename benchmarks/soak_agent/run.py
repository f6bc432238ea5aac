"""Runs a soak of kills: start, wait for a moment, kill, and again; in the end all must come to rest."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.soak_agent import queue, witness
from benchmarks.soak_agent.faults import Faults
from benchmarks.soak_agent.jobs import JobStream
from benchmarks.soak_agent.moment import wait_for_moment
from benchmarks.soak_agent.plan import KillsPlan
from benchmarks.soak_agent.stage import LEVEL, Limits, Stage, stage
from benchmarks.soak_agent.witness import SLEEP, Run

DEAD_S, SECOND_AGENT_SHARE, RESTORES, CONTROLLER_DIES = (0.0, 0.6), 0.1, 0.08, 0.08
"""How long nobody is there after a kill; so often with a kill a second agent tries, a restore is made, and so on."""
FORGETS_S, CALMS_S = 6.0, 20.0
"""Slurm's controller saves its state every five seconds. What it forgets of jobs is its own fault: none is lost so."""
RESTORED = ("the queue is in the scheduler's own order", "not everything was restored")
MOST_MORE, MOST_MIN_ON = 6, 4
REST_S, PATIENCE_S, SECOND_AGENT_S, LOOK_S = 60.0, 240.0, 10.0, 0.2


@dataclass
class Found:
    """What a soak has found: `broken` in words, counts, and what was seen in the end."""

    plan: KillsPlan
    broken: list[str] = field(default_factory=list)
    moments: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    runs: list[Run] = field(default_factory=list)
    jobs: int = 0
    sleeps: int = 0
    wakes: int = 0
    intents: int = 0
    interrupted: int = 0
    restored: int = 0
    rest_s: float = 0.0
    took_s: float = 0.0


def killed(plan: KillsPlan) -> Found:
    """Kill so often, and look what became of it."""
    begun_s = time.perf_counter()
    with stage(plan) as made:
        soak = _Soak(plan, made)
        for _ in range(plan.kills):
            soak.cycle()
        soak.end()
    soak.found.took_s = time.perf_counter() - begun_s
    return soak.found


class _Soak:
    def __init__(self, plan: KillsPlan, stage: Stage) -> None:
        self._plan, self._stage = plan, stage
        self._cluster, self._agent = stage.cluster, stage.agent
        self._chance = random.Random(plan.seed)
        self._jobs = JobStream(stage.cluster, plan.nodes, random.Random(plan.seed))
        self._faults = Faults(stage.cluster, self._chance)
        self.found = Found(plan)

    def cycle(self) -> None:
        """Let the agent live for a moment, and kill it."""
        limits, begun_s = self._limits(), time.time()
        self._stage.write_site(limits, self._stage.falling())
        self._start()
        self._faults.fall_ill()
        if self._chance.random() < CONTROLLER_DIES and self._is_calm():
            self._faults.kill_controller()
        moment = wait_for_moment(self._cluster.folder, self._chance, self._meanwhile)
        if not self._agent.runs:
            self.found.broken.append("the agent has ended by itself")
        self._agent.kill9()
        self.found.moments[moment] += 1
        self.found.runs.append(Run(begun_s, time.time(), limits.per_hour, limits.min_on))
        if self._chance.random() < RESTORES:
            self._restore()
        self._pass(self._chance.uniform(*DEAD_S))

    def end(self) -> None:
        """Let all come to rest, and ask the witnesses."""
        self._faults.end()
        self._restore()
        begun_s = time.time()
        self._stage.write_site(Limits(), LEVEL)
        self._agent.start()
        self._wait(self._all_ended, "all jobs to end")
        self._wait(self._all_sleep, "idle nodes to sleep, and to be open")
        self._jobs.submit_wide()
        self._wait(self._all_ended, "a job on all nodes")
        self.found.rest_s = time.time() - begun_s
        self._agent.stop()
        self.found.runs.append(Run(begun_s, time.time(), Limits.per_hour, Limits.min_on))
        self._ask_witnesses()

    def _ask_witnesses(self) -> None:
        found, trace, events = self.found, self._cluster.jobs.trace(), self._cluster.log.events()
        with self._stage.ledger() as ledger:
            actions = ledger.recent(0.0)
        found.broken += witness.of_jobs(self._jobs.jobs, trace)
        found.broken += witness.of_limits(actions, found.runs)
        found.broken += witness.of_power(events, found.runs, self._cluster.nodes)
        found.broken += witness.of_ledger(actions, events)
        found.jobs, found.faults, found.intents = len(self._jobs.jobs), self._faults.counts, len(actions)
        found.sleeps, found.wakes = (sum(event.what == what for event in events) for what in (SLEEP, "booting"))
        found.interrupted = sum(
            action.outcome is not None and action.outcome.result == "interrupted" for action in actions
        )

    def _limits(self) -> Limits:
        """Return limits of which some are nearly used up: who forgets what was ordered exceeds them."""
        with self._stage.ledger() as ledger:
            actions = ledger.recent(time.time() - witness.HOUR_S)
        slept = sum(action.intent.effect.order == SLEEP for action in actions)
        return Limits(max(1, slept + self._chance.randint(0, MOST_MORE)), self._chance.randint(0, MOST_MIN_ON))

    def _start(self) -> None:
        """Start the agent; now and then two, of which one must go."""
        self._agent.start()
        if self._chance.random() >= SECOND_AGENT_SHARE:
            return
        second_agent = self._stage.second_agent()
        second_agent.start()
        until_s = time.monotonic() + SECOND_AGENT_S
        while second_agent.runs and self._agent.runs and time.monotonic() < until_s:
            self._meanwhile()
            time.sleep(LOOK_S)
        if second_agent.runs and self._agent.runs:
            self.found.broken.append("two agents run")
        self.found.moments["two were started"] += 1
        if second_agent.runs:
            self._agent.kill9()
            self._agent.process = second_agent.process

    def _is_calm(self) -> bool:
        """Wait until nothing has happened to jobs for so long that a killed controller forgets none; tell whether."""
        until_s = time.monotonic() + CALMS_S
        while time.time() - self._jobs.quiet_since_s() < FORGETS_S:
            if time.monotonic() > until_s:
                return False
            self._faults.go_on()
            time.sleep(LOOK_S)
        return True

    def _restore(self) -> None:
        """Give the site its own queue back, and look whether it is."""
        output = self._stage.restore()
        jobs = queue.pending(self._cluster)
        # Nodes that go down just now are given back later.
        left = [
            line for line in output.splitlines() if line.startswith("not given back") and "closed still" not in line
        ]
        if left or not any(end in output for end in RESTORED):
            self.found.broken.append(f"a restore says: {output}")
        # Under multifactor only the nice values are ours.
        given = queue.given_priorities(self._cluster) if self._plan.priority == "basic" else None
        self.found.broken += [f"after a restore: {site}" for site in queue.not_the_sites(jobs, given)]
        self.found.restored += len(jobs)

    def _meanwhile(self) -> None:
        self._jobs.go_on()
        self._faults.go_on()

    def _pass(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._meanwhile()
            time.sleep(LOOK_S / 10)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until_s:
                self.found.broken.append(f"waited {PATIENCE_S:g} s for {what}:\n{self._cluster.describe_state()}")
                return
            time.sleep(LOOK_S)

    def _all_ended(self) -> bool:
        return not self._cluster.run("squeue", "--noheader").strip()

    def _all_sleep(self) -> bool:
        states = [self._cluster.state(node) for node in self._cluster.nodes]
        is_open = not any("DRAIN" in state for state in states)
        return is_open and states.count("IDLE+POWERED_DOWN") >= self._plan.nodes - Limits.min_on

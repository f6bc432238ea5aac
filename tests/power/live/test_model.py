"""Whatever goes wrong between scheduler, BMCs and an agent that is killed: jobs keep their nodes, and it calms down."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from model_cluster import ModelCluster
from scheduler_values import NOW_S
from small_site import HARDWARE, site_of

from offpeak.door.effect import Hold, Outcome, Refusal
from offpeak.errors import NoAnswer
from offpeak.model.orders import NodeChange, NodeOrder, PowerState
from offpeak.plugin.scheduler.node import scheduler_states
from offpeak.power.drivers.port import PowerObservation
from offpeak.power.lifecycle.decisions import DueOrder, NodeContexts, NodeRecords, find_due_orders, record_poll
from offpeak.power.lifecycle.node_context import NodeContext, RetryPolicy
from offpeak.power.lifecycle.node_record import (
    DesiredStateChange,
    HoldChange,
    Instant,
    NodeObservation,
    NodeRecord,
    ObservedState,
    OrderAnswer,
    Release,
)
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.power.live.cluster_snapshot import ClusterSnapshot
from offpeak.power.live.power_plan import PowerMemory, plan_power
from offpeak.settings.capacity import CapacitySettings

NAMES = ("n01", "n02", "n03", "n04")
NODE = st.sampled_from(NAMES)
POLICY = st.sampled_from(
    ("timeout:2min", "energy-aware", "green-pool:1", "ols:10min", "two-level:2", "planned:2min", "forecast-late:20min")
)
A_CYCLE_S, MIN_AWAKE_S = 60, 600


class Killed(Exception):
    """The agent ends here."""


class AnyCluster(RuleBasedStateMachine):
    """Four nodes, their scheduler, and an agent whose every effect may be its last."""

    @initialize(policy=POLICY, limits=st.booleans(), seed=st.integers(0, 9999))
    def begins(self, policy: str, limits: bool, seed: int) -> None:
        self.cluster = ModelCluster(NAMES, NOW_S)
        bounds = CapacitySettings(min_awake_s=MIN_AWAKE_S)
        agent = {"capacity": policy, "limit_capacity": limits, "cycles_per_day": 1000, "nodes_per_sweep": 3}
        self.site = site_of(4, bounds=bounds, **agent)
        self.rules_of = NodeContexts(
            self.site.machines, NodeContext(HARDWARE, random.Random(seed), retry=RetryPolicy())
        )
        self.records, self.memory = NodeRecords({name: NodeRecord(name) for name in NAMES}), PowerMemory()
        self.refuses, self.effects_left, self.effects = False, -1, 0
        self.drained = set[str]()

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.calms_down()

    @rule(width=st.integers(1, 4), run_s=st.sampled_from((30, 300, 2000)))
    def a_job_comes(self, width: int, run_s: int) -> None:
        self.cluster.submit(width, run_s)

    @rule(cycles=st.integers(1, 25))
    def time_passes(self, cycles: int) -> None:
        for _ in range(cycles):
            self.cycle()

    @rule(effects=st.integers(0, 6))
    def is_killed_after(self, effects: int) -> None:
        self.effects_left = effects

    @rule(minutes=st.sampled_from((1, 10, 60)))
    def is_dead_for(self, minutes: int) -> None:
        for _ in range(minutes):
            self.cluster.advance(60)
            self.cluster.resume_program()
        self.starts_anew()

    @rule(node=NODE, fault=st.sampled_from(("never_boots", "ignores_shutdown", "bmc_silent")), ill=st.booleans())
    def breaks_or_mends(self, node: str, fault: str, ill: bool) -> None:
        setattr(self.cluster.nodes[node], fault, ill)

    @rule()
    def the_door_refuses_or_not(self) -> None:
        self.refuses = not self.refuses

    @rule(node=NODE)
    def an_admin_drains_or_gives_back(self, node: str) -> None:
        machine = self.cluster.nodes[node]
        self.drained ^= {node}
        machine.reason = "new DIMM" if node in self.drained else ""

    @rule(node=NODE, change=st.sampled_from((NodeChange.POWER_DOWN, NodeChange.POWER_UP)))
    def an_admin_powers(self, node: str, change: NodeChange) -> None:
        self.cluster.power_requested(self.cluster.nodes[node], change)

    @rule(node=NODE, on=st.booleans())
    def an_admin_holds(self, node: str, on: bool) -> None:
        self.happens(node, HoldChange(Hold("jo", "repair") if on else None))

    @rule(node=NODE)
    def somebody_presses_the_button(self, node: str) -> None:
        if not self.cluster.has_job(node):
            machine = self.cluster.nodes[node]
            machine.switched(NodeOrder.ON if machine.machine == "off" else NodeOrder.SOFT_OFF, self.cluster.now_s)

    @invariant()
    def a_cycle_is_made(self) -> None:
        if hasattr(self, "cluster"):
            self.cycle()

    def cycle(self) -> None:
        self.cluster.advance(A_CYCLE_S)
        try:
            self.looks_and_acts()
        except Killed:
            self.starts_anew()
            self.cluster.resume_program()

    def looks_and_acts(self) -> None:
        now, view = self.now(), self.cluster.view()
        states = scheduler_states(view.nodes)
        self.records = record_poll(self.records, {name: self.look(name) for name in NAMES}, states, now, self.rules_of)
        plan = plan_power(ClusterSnapshot(now, view, self.records), site=self.site, memory=self.memory)
        self.memory = plan.memory
        for name, desired in plan.desired_states.items():
            self.happens(name, DesiredStateChange(desired))
        for update in plan.changes:
            self.an_effect()
            self.cluster.change(update.node, update.change, update.reason)
        for record, due in find_due_orders(self.records, now, self.rules_of):
            self.orders(record.node, due)

    def orders(self, name: str, due: DueOrder) -> None:
        self.an_effect()
        node = self.cluster.nodes[name]
        down = due.order is not NodeOrder.ON
        answer: Outcome | Refusal
        if down and (self.refuses or self.cluster.in_use(name)):
            answer = Refusal("no_job_now", "not now")
        elif node.bmc_silent:
            answer = Outcome("failed", "no answer", "NoAnswer")
        else:
            self.cluster.order(name, due.order)
            answer = Outcome("done", "")
        self.happens(name, OrderAnswer(due.order, due.way, due.by, answer))

    def an_effect(self) -> None:
        self.effects += 1
        self.effects_left -= 1
        if self.effects_left == 0:
            raise Killed

    def starts_anew(self) -> None:
        """Nothing is left but what the book has: the states that were seen, and the holds."""
        self.effects_left, self.memory = -1, PowerMemory()
        nodes = {}
        for name, record in self.records.nodes.items():
            seen = ObservedState(
                record.observed.state,
                record.observed.at_unix_s,
                since_unix_s=record.observed.since_unix_s,
                by=record.observed.by,
            )
            nodes[name] = NodeRecord(name, observed=seen, hold=record.hold)
        self.records = NodeRecords(nodes, self.records.times)

    def look(self, name: str) -> NodeObservation:
        node, at_s = self.cluster.nodes[name], float(self.cluster.now_s)
        if node.bmc_silent:
            return NodeObservation(PowerObservation(PowerState.UNKNOWN, at_s, NoAnswer(f"{name}: silent")))
        return NodeObservation(PowerObservation(PowerState.OFF if node.machine == "off" else PowerState.ON, at_s))

    def happens(self, name: str, event) -> None:
        record = apply_event(self.records.nodes[name], event, self.now(), self.rules_of.context)
        self.records = NodeRecords({**self.records.nodes, name: record}, self.records.times)

    def now(self) -> Instant:
        return Instant(float(self.cluster.now_s), float(self.cluster.now_s))

    def calms_down(self) -> None:
        """All is mended and given back: every job runs and ends, no node flaps, and then nothing is left to do."""
        self.refuses = False
        for name, node in self.cluster.nodes.items():
            node.never_boots = node.ignores_shutdown = node.bmc_silent = False
            node.failed = False
            node.reason = "" if name in self.drained else node.reason
            if node.machine == "boots":
                node.until_s = min(node.until_s, self.cluster.now_s + 300)
            self.happens(name, Release())
            node.requested_off_s.clear()
        for _ in range(150 + sum(job.left_s // A_CYCLE_S + 20 for job in self.cluster.jobs)):
            self.cycle()
            self.operator_repairs()
        assert not self.cluster.jobs, [vars(job) for job in self.cluster.jobs]
        for node in self.cluster.nodes.values():
            gaps = [
                after - before for before, after in zip(node.requested_off_s, node.requested_off_s[1:], strict=False)
            ]
            assert all(gap >= MIN_AWAKE_S for gap in gaps), (node.name, gaps)
        before = self.effects
        for _ in range(20):
            self.cycle()
        assert self.effects == before, [vars(node) for node in self.cluster.nodes.values()]

    def operator_repairs(self) -> None:
        """What was handed over, or switched off by a hand, is looked at: the operator mends it, and gives it back."""
        for name, node in self.cluster.nodes.items():
            if node.failed and not node.reason:
                node.failed = False
                # What the scheduler counts as powered down is taken back only after a boot that it asked for.
                node.switched(NodeOrder.ON if node.power is PowerState.ON else NodeOrder.SOFT_OFF, self.cluster.now_s)
            if self.records.nodes[name].fault is not None:
                self.happens(name, Release())


AnyCluster.TestCase.settings = settings(stateful_step_count=12)
TestAnyCluster = AnyCluster.TestCase

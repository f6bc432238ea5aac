"""Whatever goes wrong, in whatever order: nobody switches off what has a job, or what nobody can see, or too many.

And when it all ends, every node is where it is wanted. The witness is what reached the nodes.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory_journal import MemoryJournal
from model_room import FAULTS, HARDWARE, ModelNode, model_lookout

from offpeak.door.door import Door
from offpeak.door.effect import AGENT, Effect, Hold, Mode, Outcome, Refusal
from offpeak.door.journal import EffectHistory
from offpeak.model.orders import NodeOrder, NodeState
from offpeak.power.interlocks.preconditions import refuse_held
from offpeak.power.interlocks.rate_limits import limit_per_sweep
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_context import NodeContext, RetryPolicy
from offpeak.power.lifecycle.node_record import (
    DesiredState,
    DesiredStateChange,
    HoldChange,
    Instant,
    NodeRecord,
    Release,
    is_goal,
    record_from_json,
    record_to_json,
)
from offpeak.power.lifecycle.sweep import SweepContext, sweep
from offpeak.power.lifecycle.transitions import apply_event

NODES = ("n1", "n2", "n3", "n4")
DOWNS_A_SWEEP = 2
NODE = st.sampled_from(NODES)
SLEEPS = (NodeOrder.STANDBY, NodeOrder.SOFT_OFF)
MODE = st.sampled_from((Mode.ACTIVE, Mode.ACTIVE, Mode.ACTIVE, Mode.ADVISE, Mode.SHADOW))
A_SWEEP_S = 100.0


class AnyRecord(RuleBasedStateMachine):
    """Four nodes, a door, and an agent that may be restarted."""

    @initialize(mode=MODE, cut_power=st.booleans(), seed=st.integers(0, 9999))
    def begins(self, mode: Mode, cut_power: bool, seed: int) -> None:
        self.runner = asyncio.Runner()
        self.nodes = {name: ModelNode(name) for name in NODES}
        self.lookout = model_lookout(self.nodes)
        self.chance = random.Random(seed)
        self.cuts = set[str]()
        self.context = NodeContext(HARDWARE, random.Random(seed), retry=RetryPolicy(cut_power=cut_power))
        self.records = NodeRecords({name: NodeRecord(name) for name in NODES})
        self.monotonic_s, self.unix_s = 5000.0, 1.8e9
        self.mode, self.refuses = mode, False
        self.scheduler_states = {name: node.term for name, node in self.nodes.items()}
        self.journal = MemoryJournal()
        self.door_opens()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.converges()
            self.runner.close()

    @rule(
        node=NODE,
        order=st.sampled_from((*SLEEPS, NodeOrder.HARD_OFF, NodeOrder.ON)),
        by=st.sampled_from((AGENT, "admin jo")),
    )
    def is_wanted(self, node: str, order: NodeOrder, by: str) -> None:
        self.cuts |= {node} if order is NodeOrder.HARD_OFF else set()
        self.happens(node, DesiredStateChange(DesiredState(order, by, self.unix_s, "a test")))

    @rule(order=st.sampled_from((*SLEEPS, NodeOrder.ON)))
    def all_are_wanted(self, order: NodeOrder) -> None:
        for node in NODES:
            self.is_wanted(node, order, AGENT)

    @rule(seconds=st.sampled_from((300.0, 700.0, 2000.0)))
    def passes(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.unix_s += seconds
        self.sweeps()

    @rule(node=NODE, fault=st.sampled_from(FAULTS))
    def breaks(self, node: str, fault: str) -> None:
        if fault != "says off" or self.nodes[node].job:
            self.nodes[node].faults.add(fault)

    @rule(node=NODE)
    def mends(self, node: str) -> None:
        self.nodes[node].faults.clear()

    @rule(node=NODE)
    def gets_a_job(self, node: str) -> None:
        self.nodes[node].job = self.nodes[node].state == "on"

    @rule(node=NODE)
    def loses_its_job(self, node: str) -> None:
        self.nodes[node].job = False
        self.nodes[node].faults.discard("says off")

    @rule(node=NODE)
    def somebody_switches(self, node: str) -> None:
        if not self.nodes[node].job:
            self.nodes[node].toggled()

    @rule(step_s=st.sampled_from((-3600.0, 3600.0, -86400.0)))
    def the_clock_is_set(self, step_s: float) -> None:
        self.unix_s += step_s

    @rule(node=NODE, who=st.sampled_from(("jo", "al")), hours=st.sampled_from((None, 1)))
    def is_held(self, node: str, who: str, hours: int | None) -> None:
        until_unix_s = None if hours is None else self.unix_s + 3600 * hours
        self.happens(node, HoldChange(Hold(who, "repair", until_unix_s)))

    @rule(node=NODE)
    def is_given_back(self, node: str) -> None:
        self.happens(node, Release())

    @rule()
    def the_door_refuses_or_not(self) -> None:
        self.refuses = not self.refuses

    @precondition(lambda self: self.monotonic_s > 6000)
    @rule()
    def the_agent_starts_anew(self) -> None:
        stored = {
            node: record_to_json(record, monotonic_s=self.monotonic_s) for node, record in self.records.nodes.items()
        }
        self.monotonic_s += 1e5
        records = {node: record_from_json(text, monotonic_s=self.monotonic_s) for node, text in stored.items()}
        self.records = NodeRecords(records, self.records.times)
        self.door_opens()

    @invariant()
    def a_round_is_made(self) -> None:
        """Somebody plans, and jobs come and go, while time passes."""
        for _ in range(3 if hasattr(self, "runner") else 0):
            node = self.chance.choice(NODES)
            self.is_wanted(node, self.chance.choice((*SLEEPS, NodeOrder.ON)), AGENT)
            if self.chance.random() < 0.2:
                self.breaks(self.chance.choice(NODES), self.chance.choice(FAULTS))
            (self.gets_a_job if self.chance.random() < 0.3 else self.loses_its_job)(self.chance.choice(NODES))
            self.passes(A_SWEEP_S)

    @invariant()
    def nothing_was_switched_off_that_had_a_job(self) -> None:
        assert not [each for each in self.arrived() if each.job and each.order is not NodeOrder.ON]

    @invariant()
    def nobody_asks_the_door_over_a_hold(self) -> None:
        assert not [
            refusal for _, refusal in getattr(self, "journal", MemoryJournal()).refusals if refusal.rule == "held"
        ]

    @invariant()
    def nothing_was_done_to_what_nobody_could_see(self) -> None:
        assert not [each for each in self.arrived() if each.faults & {"dead", "garbage"}]

    @invariant()
    def shadow_sends_nothing(self) -> None:
        assert getattr(self, "mode", None) is not Mode.SHADOW or not list(self.arrived())

    @invariant()
    def power_was_cut_only_where_that_was_wanted_or_allowed(self) -> None:
        for record in self.records.nodes.values() if hasattr(self, "records") else ():
            cuts = [each for each in self.nodes[record.node].log if each.order is NodeOrder.HARD_OFF]
            assert not cuts or self.cuts_wanted(record.node)

    def cuts_wanted(self, node: str) -> bool:
        return node in self.cuts or self.context.retry.cut_power

    def arrived(self) -> list:  # type: ignore[type-arg]
        return [each for node in getattr(self, "nodes", {}).values() for each in node.log]

    def happens(self, node: str, event: HoldChange | Release | DesiredStateChange) -> None:
        record = apply_event(self.records.nodes[node], event, self.now(), self.context)
        self.records = NodeRecords({**self.records.nodes, node: record}, self.records.times)

    def now(self) -> Instant:
        return Instant(self.monotonic_s, self.unix_s)

    def sweeps(self) -> None:
        for node in self.nodes.values():
            node.advance(self.monotonic_s)
        before = {name: len(node.log) for name, node in self.nodes.items()}
        self.history.begin_sweep()
        # What the scheduler said a round ago: a job may have begun since.
        known, self.scheduler_states = self.scheduler_states, {name: node.term for name, node in self.nodes.items()}
        means = SweepContext(self.lookout, self.order, self.context, self.now, 5, self.publish)
        self.records = self.runner.run(sweep(means, self.records, known))
        downs = sum(each.order is not NodeOrder.ON for n, node in self.nodes.items() for each in node.log[before[n] :])
        assert downs <= DOWNS_A_SWEEP

    def publish(self, records: NodeRecords) -> None:
        self.records = records

    def door_opens(self) -> None:
        self.history = EffectHistory.of(self.journal, self.unix_s, steady=lambda: self.monotonic_s)
        rules = (("job", self.no_job), ("whim", self.whim))
        limits = (
            ("per_sweep", limit_per_sweep(self.history, DOWNS_A_SWEEP)),
            ("held", refuse_held(lambda node: self.records.nodes[node].hold, lambda: self.unix_s)),
        )
        self.door = Door(
            lambda _: self.mode,
            journal=self.journal,
            clock=lambda: self.unix_s,
            rules=rules,
            limits=limits,
            history=self.history,
        )

    async def order(self, effect: Effect, before_sending: Callable[[], None]) -> Outcome | Refusal:
        return await self.door.let_through(effect, partial(self.act, effect, before_sending))

    async def act(self, effect: Effect, before_sending: Callable[[], None]) -> str:
        before_sending()
        node, order = self.nodes[effect.subject], NodeOrder(effect.order)
        if effect.way == "wol" or order is NodeOrder.STANDBY:
            node.reported(order, way=effect.way or "ssh")
        else:
            await self.lookout.drivers[effect.subject].send(order)
        return ""

    async def no_job(self, effect: Effect) -> Refusal | None:
        job = effect.takes_power_away and self.nodes[effect.subject].job
        return Refusal("job", "a job runs there") if job else None

    async def whim(self, _effect: Effect) -> Refusal | None:
        return Refusal("whim", "not now") if self.refuses else None

    def converges(self) -> None:
        """All is mended, given back, and wanted somewhere: it gets there, or in shadow mode stays as it is."""
        self.refuses = False
        # Whoever switched it by hand has stopped, and a wish is no longer changed.
        if self.chance.random() < 0.5:
            self.all_are_wanted(NodeOrder.ON)
        for name, node in self.nodes.items():
            node.faults.clear()
            node.job = False
            self.happens(name, Release())
            if self.records.nodes[name].desired is None:
                self.happens(name, DesiredStateChange(DesiredState(NodeOrder.ON, AGENT, self.unix_s, "the end")))
            if node.state in ("booting", "resuming"):
                node.until_s = min(node.until_s, self.monotonic_s + 600)
        if self.mode is not Mode.ACTIVE:
            return
        for _ in range(40):
            self.passes(300.0)
            for name in NODES:
                if self.records.nodes[name].fault is not None:
                    self.happens(name, Release())
        for record in self.records.nodes.values():
            assert record.desired is not None
            assert record.observed.state is not NodeState.UNKNOWN
            assert is_goal(record.desired.order, record.observed.state), record
            assert record.fault is None


AnyRecord.TestCase.settings = settings(stateful_step_count=40)
TestAnyRecord = AnyRecord.TestCase


def test_a_state_that_says_off_with_a_job_is_never_acted_on() -> None:
    machine = AnyRecord()
    machine.begins(Mode.ACTIVE, cut_power=True, seed=1)
    machine.passes(5.0)
    machine.gets_a_job("n1")
    machine.breaks("n1", "says off")
    machine.is_wanted("n1", NodeOrder.SOFT_OFF, AGENT)
    for _ in range(20):
        machine.passes(400.0)
    assert machine.nodes["n1"].log == []
    machine.teardown()

"""The life cycle and the whole door against BMCs that answer over the network, and do not, as they please.

The witness is what reached the BMCs, by their own records.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from ipmi_fixtures import MachineOf
from memory_journal import MemoryJournal
from served_room import ServedRoom, planned, served_room

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from offpeak.door.effect import AGENT
from offpeak.machines.credentials import Credential
from offpeak.machines.inventory import Enrolment, Hardware, Inventory, InventoryNode, SleepMethod
from offpeak.model.orders import NodeOrder
from offpeak.plugin.scheduler.node import SchedulerState
from offpeak.power.door.node_orders import InterlockContext, make_node_orders
from offpeak.power.drivers.registry import DriverPool
from offpeak.power.drivers.transport import Transport
from offpeak.power.interlocks.preconditions import StateReading
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_context import NodeContext, RetryPolicy
from offpeak.power.lifecycle.node_record import DesiredState, DesiredStateChange, NodeRecord, Release, is_goal
from offpeak.power.lifecycle.sweep import SweepContext, make_poller, read_clocks, sweep
from offpeak.power.lifecycle.transitions import apply_event
from offpeak.settings.agent import AgentSettings
from offpeak.sim_backend.virtual.machine_room import MachineRoom
from offpeak.sim_backend.virtual.node import BmcFaults

MANY, CAP = 64, 12
SLEEP_METHODS = (SleepMethod(NodeOrder.SOFT_OFF, ("bmc",), enter_timeout_s=2, wake_timeout_s=2),)
HASTY = RetryPolicy(
    first_pause_s=0.05,
    refused_pause_s=0.05,
    longest_refused_pause_s=0.1,
    ours_again_s=0.1,
    pause_after_change_s=0.2,
    surprises=1000,
    unseen_s=60,
)
SETTINGS = AgentSettings(
    nodes_per_sweep=CAP,
    nodes_per_hour=10_000,
    wakes_per_min=100_000,
    rack_nodes_per_min=10_000,
    cycles_per_day=10_000,
    breaker_failures=10_000,
    breaker_orders=10_000,
    unknown_percent=100,
)


@dataclass
class Agent:
    """Makes rounds over machines; `jobs` are the nodes on which one runs, as the scheduler says when it is asked."""

    machines: tuple[InventoryNode, ...]
    mode: str = "active"
    least_on: int = 4
    jobs: set[str] = field(default_factory=set)
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    def __post_init__(self) -> None:
        self.wire, self.names = Transport(timeout_s=0.5), tuple(machine.node for machine in self.machines)
        self.records = NodeRecords({name: NodeRecord(name) for name in self.names})
        self.ways = DriverPool({machine.node: machine for machine in self.machines}, self.wire)
        self.context = NodeContext(self.machines[0].hardware, random.Random(1), retry=HASTY)
        site = InterlockContext(
            Inventory(Path("inventory.toml"), self.machines),
            self.ways,
            self.sighting_of,
            self.wire.clock,
            {}.get,
            lambda nodes: {node: "runs 7" if node in self.jobs else "" for node in nodes},
        )
        settings = replace(SETTINGS, mode=self.mode, nodes=",".join(self.names), min_on=self.least_on)
        self.orders = make_node_orders(settings, site, self.journal)
        self.means = SweepContext(
            make_poller(self.machines, self.wire),
            self.orders.order,
            self.context,
            lambda: read_clocks(self.wire),
            1.0,
            self.publish,
        )

    def publish(self, records: NodeRecords) -> None:
        self.records = records

    def sighting_of(self, node: str) -> StateReading | None:
        seen = self.records.nodes[node].observed
        return StateReading(str(seen.state), seen.at_unix_s)

    def wants(self, node: str, order: NodeOrder) -> None:
        self.happens(node, DesiredStateChange(DesiredState(order, AGENT, 0.0, "test")))

    def happens(self, node: str, event: DesiredStateChange | Release) -> None:
        record = apply_event(self.records.nodes[node], event, read_clocks(self.wire), self.context)
        self.records = NodeRecords({**self.records.nodes, node: record}, self.records.times)

    async def round(self, arguments: Mapping[str, SchedulerState] | None = None) -> None:
        self.orders.door.history.begin_sweep()
        self.records = await sweep(self.means, self.records, arguments or {})

    def states(self) -> dict[str, str]:
        return {node: str(record.observed.state) for node, record in self.records.nodes.items()}

    def there(self) -> bool:
        records = self.records.nodes.values()
        return all(
            record.desired is not None and is_goal(record.desired.order, record.observed.state) for record in records
        )

    async def until(self, condition: Callable[[], bool], seconds: float = 300.0) -> None:
        give_up_s = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up_s, self.records
            await self.round()
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self.ways.close()
        await self.wire.close()


@pytest.fixture(scope="module")
def room() -> Iterator[ServedRoom]:
    with served_room(planned(f"n[01-{MANY}]", clock_factor=1000)) as room:
        yield room


def machines_of(room: ServedRoom, folder: Path) -> tuple[InventoryNode, ...]:
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    hardware = Hardware(
        "virtual", "ipmi", Credential("bmc", "admin", password), room.plan.bmc_port, sleep_methods=SLEEP_METHODS
    )
    guids = room.do(lambda room: {name: str(bmc.guid) for name, bmc in room.bmcs.items()})
    return tuple(
        InventoryNode(node, hardware, host, enrolled=Enrolment(guids[node], (), "2026-11-21"))
        for node, host in zip(room.plan.nodes, room.plan.bmc_hosts, strict=True)
    )


def orders_of(room: ServedRoom) -> dict[str, list[int]]:
    return room.do(lambda room: {name: list(bmc.orders) for name, bmc in room.bmcs.items()})


def spoil(room: MachineRoom, chance: random.Random) -> None:
    """Whatever may go wrong with a BMC or its node, with one of eight of them."""
    faults = (BmcFaults(drops_commands=True), BmcFaults(garbage=True), BmcFaults(silent=True), BmcFaults(delay_s=0.1))
    for name in chance.sample(list(room.bmcs), MANY // 8):
        room.bmcs[name].faults = chance.choice(faults)
    for name in chance.sample(list(room.bmcs), MANY // 16):
        room.nodes[name].fail_next()


def mend(room: MachineRoom) -> None:
    """The operator has been there: all BMCs are well, and what hangs was switched off and on."""
    for bmc in room.bmcs.values():
        bmc.faults = BmcFaults()
        bmc.node.hard_off()
        bmc.node.on()


@pytest.mark.parametrize("mode", ["active", "shadow"])
def test_a_rack_with_random_faults(mode: str, room: ServedRoom, tmp_path: Path) -> None:
    chance = random.Random(mode)
    room.do(mend)
    room.do(lambda room: [bmc.orders.clear() for bmc in room.bmcs.values()])

    async def rounds() -> None:
        agent = Agent(machines_of(room, tmp_path), mode)
        await agent.round()
        for number in range(9):
            if number % 4 == 1:
                room.do(lambda room: spoil(room, chance))
            agent.jobs = set(chance.sample(agent.names, MANY // 4))
            for node in chance.sample(agent.names, MANY // 2):
                agent.wants(node, chance.choice((NodeOrder.SOFT_OFF, NodeOrder.ON)))
            before = orders_of(room)
            await agent.round(dict.fromkeys(agent.names, SchedulerState.UP))
            new = {node: orders[len(before[node]) :] for node, orders in orders_of(room).items()}
            downs = {node for node, orders in new.items() if any(order != 1 for order in orders)}
            assert not downs & agent.jobs
            assert len(downs) <= CAP
            assert mode == "active" or not any(new.values())
        room.do(mend)
        for node in agent.names:
            agent.happens(node, Release())
            agent.wants(node, NodeOrder.ON)
        if mode == "active":
            await agent.until(agent.there)
            assert any(orders_of(room).values())
        await agent.close()

    asyncio.run(rounds())


def test_node_goes_off_and_on_with_ipmi_sim(few_bmcs: list[SimulatedBmc], machine_of: MachineOf) -> None:
    machines = []
    for number, bmc in enumerate(few_bmcs, 1):
        machine = machine_of(bmc, node=f"n{number}")
        hardware = replace(machine.hardware, sleep_methods=SLEEP_METHODS)
        machines.append(replace(machine, hardware=hardware, enrolled=Enrolment(bmc.guid, (), "2026-11-21")))

    first, forgets, used = few_bmcs

    async def rounds() -> None:
        agent = Agent(tuple(machines), least_on=0, jobs={"n3"})
        for name in agent.names:
            agent.wants(name, NodeOrder.SOFT_OFF)
        await agent.until(lambda: list(agent.states().values()) == ["off", "off", "on"])
        forgets.write("drops", "1")
        first.freeze()
        for name in agent.names:
            agent.wants(name, NodeOrder.ON)
        await agent.round()
        await agent.round()
        assert agent.states()["n1"] == "unknown"
        first.thaw()
        await agent.until(agent.there)
        await agent.close()

    asyncio.run(rounds())
    assert first.lines("orders") == ["soft_off", "on"]
    assert forgets.lines("orders") == ["soft_off", "on", "on"]
    assert used.lines("orders") == []

"""The scheduler requests a sleeping node, and the agent cannot or may not act: the node is woken all the same.

The agent runs as a service with a virtual room's BMCs; Slurm's real resume program asks it over its socket.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from guarded_room import GuardedRoom, guarded_room
from recording_scheduler import RecordingScheduler
from scheduler_values import node_of, record_of
from slurm_programs import SlurmPrograms, slurm_programs

from benchmarks.local_slurm.processes import end_processes_with
from offpeak.door.effect import AGENT, SCHEDULER, Effect, Hold, Outcome
from offpeak.errors import AccessRefused, NoAnswer, OffpeakError, SchedulerError
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder, NodeState, PowerState
from offpeak.plugin.scheduler.node import Node, NodeUse
from offpeak.plugin.scheduler.port import SchedulerView
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.lifecycle.node_record import NodeRecord
from offpeak.services.agent import admin_requests, site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.requests import NodeRequest, WakeReply
from offpeak.services.agent.service import Service
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings

PATIENCE_S = 300.0
TWO_DAYS_S = 2 * 86_400.0
TARIFF = "on=30EUR/MWh,off=30EUR/MWh,hours=00:00-12:00,zone=UTC"


class AnyMoment(RecordingScheduler):
    """A scheduler that shows its nodes as they are at this moment of its clock."""

    ahead_s = 0

    def view(self) -> SchedulerView:
        return replace(super().view(), at_s=int(time.time()) + self.ahead_s)


@dataclass
class SleepingSite:
    """Two nodes that are off; `n1` was put to sleep by our order two days ago, `n2` by nobody here."""

    folder: Path
    room: GuardedRoom
    scheduler: AnyMoment
    settings: Settings
    ledger: Ledger
    programs: SlurmPrograms

    def agent(self) -> SiteAgent:
        return SiteAgent(site_context.make_site_context(self.settings), self.ledger, ProblemLog())

    def change(self, **agent: Any) -> Settings:
        """Have other settings below [agent] from the next time they are read."""
        self.settings = replace(self.settings, agent=replace(self.settings.agent, **agent))
        return self.settings

    def wants(self, *names: str) -> None:
        """Have the scheduler wait for these nodes to come up."""
        self.scheduler.shows = shown(*names)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SiteAgent]:
        agent = self.agent()
        service = Service(agent, lambda: self.settings)
        task = asyncio.create_task(service.run())
        self.reread = service._read_again.set
        try:
            yield agent
        finally:
            service.end()
            await asyncio.wait_for(task, PATIENCE_S)
            await agent.close()

    async def resume(self, nodes: str, scale: float = 0.02) -> None:
        """Ask for the nodes as slurmctld does."""
        await asyncio.to_thread(self.programs.run, "offpeak-resume", nodes, OFFPEAK_TIME_SCALE=str(scale))

    async def is_on(self, node: str) -> None:
        """Return once the node has power."""
        await until(lambda: self.room.do(lambda room: room.nodes[node].powered), self.programs)

    def orders(self, node: str) -> list[tuple[str, str]]:
        """Return what the agent has ordered of a node, as the ledger has it."""
        ledger = Ledger(self.settings.ledger)
        done = [result.intent.effect for result in ledger.recent(0.0)]
        ledger.close()
        return [(effect.order, effect.by) for effect in done if effect.subject == node and effect.is_to_node]


async def until(condition: Callable[[], bool], programs: SlurmPrograms) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < until_s, "\n".join(programs.lines())
        await asyncio.sleep(0.05)


def shown(*wanted: str) -> SchedulerView:
    return SchedulerView(int(time.time()), (), tuple(node(name, name in wanted) for name in ("n1", "n2")), ())


def node(name: str, wanted: bool) -> Node:
    power, use = (PowerState.POWERING_ON, NodeUse.USED) if wanted else (PowerState.OFF, NodeUse.FREE)
    return node_of(name, power=power, use=use, responds=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SleepingSite]:
    programs, scheduler = slurm_programs(tmp_path), AnyMoment()
    monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: scheduler)
    with guarded_room(tmp_path, "n[1-2]") as room:
        room.do(lambda each: [each.nodes[name].hard_off() for name in ("n1", "n2")])
        agent = AgentSettings(
            mode="active",
            nodes="n[1-2]",
            capacity="always-on",
            cycle_s=1,
            queue="off",
            min_on=0,
            socket=programs.socket,
            state_folder=programs.state,
        )
        settings = Settings(
            agent=agent,
            prices=PriceSettings(tariff=TARIFF),
            hardware=HardwareSettings(inventory=room.inventory.path, timeout_s=60),
            ledger=LedgerSettings(url=f"sqlite:///{tmp_path}/ledger"),
        )
        ledger = Ledger(settings.ledger, patience_s=10.0)
        ledger.ready()
        number = ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, AGENT, "idle"), time.time() - TWO_DAYS_S)
        ledger.write_outcome(number, Outcome("done", "accepted"), time.time() - TWO_DAYS_S)
        made = SleepingSite(tmp_path, room, scheduler, settings, ledger, programs)
        made.wants()
        yield made
        ledger.close()
    end_processes_with("OFFPEAK_SLURM_LOG", programs.log)


async def can_wake(agent: SiteAgent, site: SleepingSite) -> None:
    """Return once the agent has made a round in which it could wake nodes."""
    await until(lambda: agent.power_loop.wake_problem == "", site.programs)


async def has_read(agent: SiteAgent, site: SleepingSite) -> None:
    """Have the settings read again, and return once the agent works with them."""
    site.reread()
    await until(lambda: agent.site.settings is site.settings, site.programs)


@pytest.mark.parametrize(
    "change",
    [{"mode": "shadow"}, {"mode": "advise"}, {"partition_modes": ("batch=shadow",)}],
    ids=["shadow", "advise", "partition"],
)
def test_a_mode_that_closes_leaves_no_node_asleep_that_a_job_waits_for(
    site: SleepingSite, change: dict[str, Any]
) -> None:
    async def scene() -> None:
        async with site.running() as agent:
            await can_wake(agent, site)
            site.change(**change)
            await has_read(agent, site)
            await can_wake(agent, site)
            site.wants("n1", "n2")
            # The one that we put to sleep is the agent's, the other one nobody here may touch but Slurm's program.
            await site.resume("n[1-2]", scale=1.0)
            await site.is_on("n1")
            await site.is_on("n2")

    asyncio.run(scene())
    assert site.orders("n1") == [("soft_off", AGENT), ("on", SCHEDULER)]
    assert site.orders("n2") == []
    line = next(line for line in site.programs.lines() if "waking those that it does not" in line)
    assert "n2: on is only recorded in mode" in line


def test_a_node_that_is_named_no_more_is_woken_by_slurms_program(site: SleepingSite) -> None:
    async def scene() -> None:
        async with site.running() as agent:
            await can_wake(agent, site)
            site.change(nodes="n2")
            await has_read(agent, site)
            await can_wake(agent, site)
            site.wants("n1")
            await site.resume("n1", scale=1.0)
            await site.is_on("n1")

    asyncio.run(scene())
    assert "n1: is not managed by offpeak" in site.programs.lines()[0]
    assert site.orders("n1") == [("soft_off", AGENT)]


@pytest.mark.parametrize("reloads", [False, True], ids=["started", "reloaded"])
def test_without_a_ledger_slurms_program_wakes(site: SleepingSite, reloads: bool) -> None:
    async def scene() -> None:
        with closing(sqlite3.connect(site.folder / "ledger", isolation_level=None, timeout=300)) as other:
            if not reloads:
                other.execute("BEGIN EXCLUSIVE")
            async with site.running() as agent:
                if reloads:
                    await can_wake(agent, site)
                    other.execute("BEGIN EXCLUSIVE")
                    site.change(cycle_s=2)
                    await has_read(agent, site)
                site.wants("n1")
                await site.resume("n1", scale=1.0)
                await site.is_on("n1")
                other.execute("ROLLBACK")

    asyncio.run(scene())
    assert site.programs.lines()[0].startswith("n1: the agent was not reached, waking without it") or (
        "waking those that it does not" in site.programs.lines()[0]
    )
    assert site.orders("n1") == [("soft_off", AGENT)]


def scheduler_is_silent(site: SleepingSite, _agent: SiteAgent) -> None:
    site.scheduler.error = SchedulerError("squeue: the token has expired", hint="scontrol token")


def plan_is_broken(_site: SleepingSite, agent: SiteAgent) -> None:
    async def plan(*_: object) -> None:
        raise RuntimeError("a fault of the program")

    agent.power.plan = plan  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("breaks", [scheduler_is_silent, plan_is_broken])
def test_a_round_that_fails_promises_nothing(
    site: SleepingSite, breaks: Callable[[SleepingSite, SiteAgent], None]
) -> None:
    async def scene() -> None:
        async with site.running() as agent:
            await can_wake(agent, site)
            breaks(site, agent)
            await until(lambda: agent.power_loop.wake_problem != "", site.programs)
            site.wants("n1")
            await site.resume("n1", scale=1.0)
            await site.is_on("n1")

    asyncio.run(scene())
    assert "n1: the " in site.programs.lines()[0]
    assert site.orders("n1") == [("soft_off", AGENT)]


def test_fault_since_the_last_round_is_found_at_the_next_request(site: SleepingSite) -> None:
    async def scene() -> None:
        async with site.running() as agent:
            await can_wake(agent, site)
            site.wants("n1")
            scheduler_is_silent(site, agent)
            await site.resume("n1")
            await site.is_on("n1")

    site.change(cycle_s=3600)
    asyncio.run(scene())
    lines = site.programs.lines()
    assert lines[0] == "n1: reported to the agent: resume"
    assert "n1: looking again whether they are on" in lines


def failed(agent: SiteAgent, problem: type[OffpeakError], times: int) -> None:
    assert agent.open_orders is not None
    history = agent.open_orders.nodes.door.history
    for _ in range(times):
        history.ended(
            history.begun(Effect("n2", NodeOrder.ON, AGENT, "")), Outcome("failed", "no answer", problem.__name__)
        )


def breaker_opens(agent: SiteAgent) -> None:
    failed(agent, NoAnswer, 5)


def login_is_refused(agent: SiteAgent) -> None:
    failed(agent, AccessRefused, 1)


def state_is_unknown(agent: SiteAgent) -> None:
    power = agent.power
    power.records = NodeRecords({**power.records.nodes, "n1": record_of("n1", NodeState.UNKNOWN)}, power.records.times)


def bmc_is_not_enrolled(agent: SiteAgent) -> None:
    machines = {name: replace(machine, enrolled=None) for name, machine in agent.site.machines.items()}
    agent.site = replace(agent.site, machines=machines)


def use_is_unknown(agent: SiteAgent) -> None:
    view = agent.observer.latest
    assert view is not None
    unknown = tuple(each._replace(use=NodeUse.UNKNOWN, native_state="REBOOT_ISSUED") for each in view.nodes)
    agent.observer.latest = replace(view, nodes=unknown)


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        (breaker_opens, "too many orders failed"),
        (login_is_refused, "was refused"),
        (state_is_unknown, "its state is not known"),
        (bmc_is_not_enrolled, "its BMC is not enrolled"),
        (use_is_unknown, "the scheduler says REBOOT_ISSUED"),
    ],
)
def test_wake_that_the_door_would_refuse_is_not_promised(
    site: SleepingSite, breaks: Callable[[SiteAgent], None], why: str
) -> None:
    async def rounds() -> WakeReply | None:
        agent = site.agent()
        await agent.power_loop.round()
        promised = admin_requests.receive(agent, NodeRequest("resume", ("n1",), ""))
        assert promised == WakeReply(("n1",))
        breaks(agent)
        reply = admin_requests.receive(agent, NodeRequest("resume", ("n1", "n3"), ""))
        await agent.site.close()
        return reply

    reply = asyncio.run(rounds())
    assert reply is not None
    assert (reply.accepted, reply.left, list(reply.refused)) == ((), {}, ["n1", "n3"])
    assert why in reply.refused["n1"]
    assert "is not managed by offpeak" in reply.refused["n3"]
    output = reply.to_json()
    assert output["error"].endswith("(and 1 more)")
    assert "nodes" not in output


def test_nodes_that_wait_for_the_pace_are_promised(site: SleepingSite) -> None:
    site.change(wakes_per_min=1)

    async def rounds() -> WakeReply | None:
        agent = site.agent()
        await agent.power_loop.round()
        orders = await agent.orders()
        orders.nodes.door.history.begun(Effect("n2", NodeOrder.ON, SCHEDULER, ""))
        reply = admin_requests.receive(agent, NodeRequest("resume", ("n1",), ""))
        await agent.site.close()
        return reply

    reply = asyncio.run(rounds())
    assert reply == WakeReply(("n1",), waiting={"n1": "n1: 1 nodes were ordered to wake within 10 s"})


def test_a_held_node_is_left_alone_whoever_asks(site: SleepingSite) -> None:
    site.ledger.hold("n1", Hold("jo", "new DIMM"), time.time())

    async def scene() -> None:
        async with site.running() as agent:
            await can_wake(agent, site)
            site.wants("n1", "n2")
            await site.resume("n[1-2]")
            await site.is_on("n2")
            scheduler_is_silent(site, agent)
            await until(lambda: agent.power_loop.wake_problem != "", site.programs)
            await site.resume("n1")
            await asyncio.sleep(3.0)

    asyncio.run(scene())
    assert site.orders("n1") == [("soft_off", AGENT)]
    assert not site.room.do(lambda room: room.nodes["n1"].powered)


@pytest.mark.parametrize("set_by_s", [0, 3600, -3600])
def test_node_no_longer_awaited_is_not_woken_later(site: SleepingSite, set_by_s: int) -> None:
    """Not even if the clock of the head node was set since the scheduler's first request."""

    async def rounds() -> list[WakeReply | None]:
        agent = site.agent()
        site.scheduler.ahead_s = set_by_s
        await agent.power_loop.round()
        replies = [admin_requests.receive(agent, NodeRequest("resume", ("n1",), "", 90.0))]
        site.wants("n1")
        await agent.power_loop.round()
        replies.append(admin_requests.receive(agent, NodeRequest("resume", ("n1",), "", 90.0)))
        await agent.site.close()
        return replies

    gone, wanted = asyncio.run(rounds())
    assert gone == WakeReply(("n1",), left={"n1": "the scheduler does not wait for it any more"})
    assert wanted == WakeReply(("n1",))


@pytest.mark.parametrize(("requested_s_ago", "is_left"), [(90.0, True), (50.0, False)])
def test_a_request_that_was_met_wakes_no_node_that_sleeps_again(
    site: SleepingSite, requested_s_ago: float, is_left: bool
) -> None:
    """slurmctld has begun anew, and shows no node: only the agent knows that the node came up and fell asleep again."""

    async def rounds() -> tuple[WakeReply | None, NodeRecord]:
        agent = site.agent()
        await agent.power_loop.round()
        now_s, memory = int(agent.power.now.unix_s), agent.power._memory
        came_up = replace(memory.nodes["n1"], woken_s=now_s - 60, slept_s=(now_s - 30,))
        agent.power._memory = replace(memory, nodes={**memory.nodes, "n1": came_up})
        use_is_unknown(agent)
        reply = admin_requests.receive(agent, NodeRequest("resume", ("n1",), "", requested_s_ago))
        await agent.site.close()
        return reply, agent.power.records.nodes["n1"]

    reply, record = asyncio.run(rounds())
    assert reply is not None
    assert (list(reply.left), list(reply.refused)) == ((["n1"], []) if is_left else ([], ["n1"]))
    # The program wakes a node that is refused: then it does not change by itself.
    assert (record.sent and (record.sent.order, record.sent.by)) == (None if is_left else (NodeOrder.ON, SCHEDULER))


def test_a_watchdog_learns_which_nodes_the_agent_wakes(site: SleepingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """PBS requests no nodes: the program that wakes nodes without an agent has to know which ones the agent wakes."""

    def read_status() -> Any:
        return json.loads(ask(site.programs.socket, {"ask": "status"}))

    async def scene() -> None:
        async with site.running() as agent:
            await until(
                lambda: agent.queue_loop.facts is not None and agent.power_loop.wake_problem == "", site.programs
            )
            assert (await asyncio.to_thread(read_status))["wakes"] == ["n1", "n2"]
            site.change(nodes="n2")
            await has_read(agent, site)
            assert (await asyncio.to_thread(read_status))["wakes"] == ["n2"]
            site.change(mode="shadow")
            await has_read(agent, site)
            assert (await asyncio.to_thread(read_status))["wakes"] == []
            site.change(mode="active")
            await has_read(agent, site)
            await can_wake(agent, site)
            monkeypatch.setattr("offpeak.services.agent.power_loop.NO_WAKES_S", -1e6)
            assert (await asyncio.to_thread(read_status))["wakes"] == []

    asyncio.run(scene())


def ask(path: Path, request: dict[str, str]) -> bytes:
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(300)
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode() + b"\n")
        return b"".join(iter(lambda: connection.recv(65_536), b""))

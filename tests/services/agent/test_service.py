"""The agent as a service: the immediate effects of signals."""

import asyncio
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dripping_server import DrippingServer, dripping_proxy
from installed_policy import install_policy
from scheduler_values import record_of

from benchmarks.local_slurm.ipmi_sim import SimulatedBmc
from benchmarks.local_slurm.processes import reserved_ports, wait_until
from offpeak.door.effect import Hold, Mode, Outcome, Refusal
from offpeak.errors import BadInput, BadLedger, CannotWrite, OffpeakError, SchedulerError
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.records import actions_in
from offpeak.ledger.rows import DecisionRecord
from offpeak.model.orders import NodeChange, NodeOrder, PowerState
from offpeak.model.request import Chunk
from offpeak.model.time_range import TimeRange
from offpeak.plugin.queue_hook.facts import QueueFacts, QueueRules
from offpeak.plugin.queue_hook.queue_plan import QueuePlan, plan_queue
from offpeak.plugin.window_policy import PolicyProcess
from offpeak.power.door.scheduler_orders import SchedulerOrderResult
from offpeak.power.lifecycle.decisions import NodeRecords
from offpeak.power.live.cluster_snapshot import ClusterSnapshot, PowerSite
from offpeak.power.live.power_plan import PowerPlan
from offpeak.services.agent import admin_requests, queue_loop, service, site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.node_memory import save_node_records
from offpeak.services.agent.requests import NodeRequest, format_order
from offpeak.services.agent.restore import RestoreResult, give_back, run_restore
from offpeak.services.agent.service import MOST_CALLS, AgentEventLoop, CallThreads, Service
from offpeak.services.agent.status import fetch_status
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.replay import FeedSettings, PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.ui.agent.status import LocalClock, status_lines

AT_ONCE_S = 300.0
"""The limit of "at once" on a busy machine; a feed that drips takes ten minutes here."""

INVENTORY = """
[credentials.bmc]
user = "admin"
password_file = "bmc.password"

[hardware.compute]
driver = "ipmi"
credential = "bmc"
port = {port}

[[machines]]
nodes = "n1"
hardware = "compute"
bmc = "{host}"
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An agent of a simulated scheduler with one node."""
    scheduler = SimulatedScheduler(SimulatedCluster({"n1": SimNode("n1", 8)}), clock=time.time)
    monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: scheduler)
    agent = AgentSettings(state_folder=tmp_path, socket=tmp_path / "agent.sock", capacity="always-on")
    return Settings(
        agent=agent, prices=PriceSettings(tariff=flat(30)), ledger=LedgerSettings(url=f"sqlite:///{tmp_path}/ledger")
    )


@pytest.fixture
def ledger(settings: Settings) -> Ledger:
    made = Ledger(settings.ledger)
    made.ready()
    return made


def flat(price: int) -> str:
    return f"on={price}EUR/MWh,off={price}EUR/MWh,hours=00:00-12:00,zone=UTC"


def test_an_agent_in_shadow_names_the_nodes_that_one_before_it_has_closed(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())
    agent.site.scheduler.change_nodes(("n1",), NodeChange.WITHDRAW, reason="offpeak: capacity: ols offers 0 of 1 nodes")

    async def serve() -> None:
        running = Service(agent, lambda: settings)
        serving = asyncio.create_task(running.run())
        async with asyncio.timeout(300):
            while "offpeak agent --restore" not in caplog.text:
                await asyncio.sleep(0.05)
        running.end()
        await serving
        await agent.close()

    asyncio.run(serve())
    assert "n1: closed by an agent before this one" in caplog.text
    assert agent.site.scheduler.view().nodes[0].closed_by_us


def test_a_hangup_has_the_prices_read_at_once(settings: Settings, ledger: Ledger) -> None:
    other = replace(settings, prices=PriceSettings(tariff=flat(90)))
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    async def costs(price: float) -> None:
        # A round of the prices comes each quarter of an hour.
        async with asyncio.timeout(300):
            while agent.prices.curve is None or set(agent.prices.curve.series.value) != {price}:
                await asyncio.sleep(0.05)

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: other).run())
        await costs(30.0)
        os.kill(os.getpid(), signal.SIGHUP)
        await costs(90.0)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())


def test_a_first_round_that_takes_minutes_is_a_start_and_no_hang(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, compiled = threading.Event(), threading.Event()

    def slow_plan(facts: QueueFacts, rules: QueueRules) -> QueuePlan:
        begun.set()
        assert compiled.wait(300)
        return plan_queue(facts, rules)

    monkeypatch.setattr(queue_loop, "plan_queue", slow_plan)
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    def first_line(later_s: float) -> str:
        published = fetch_status(settings.agent.socket, ask="status")
        return status_lines(published, LocalClock((published.now_unix_s or 0.0) + later_s, UTC))[0]

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        assert await asyncio.to_thread(begun.wait, 300)
        assert "mode shadow, starting: its first cycle is running, until " in await asyncio.to_thread(first_line, 300)
        assert "IT HANGS: its first cycle was due to end by " in await asyncio.to_thread(first_line, 901)
        compiled.set()
        async with asyncio.timeout(300):
            while "starting" in await asyncio.to_thread(first_line, 0):
                await asyncio.sleep(0.05)
        assert re.search(r"looked \d s ago", await asyncio.to_thread(first_line, 0))
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())


def test_an_agent_whose_first_round_failed_has_not_looked(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_orders(_agent: SiteAgent) -> None:
        raise CannotWrite("the ledger is locked")

    monkeypatch.setattr(SiteAgent, "orders", no_orders)
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        async with asyncio.timeout(300):
            while agent.first_round_until_unix_s is not None or not agent.problem_log.problems:
                await asyncio.sleep(0.05)
        reply = await asyncio.to_thread(lambda: fetch_status(settings.agent.socket, ask="status"))
        first = status_lines(reply, LocalClock(reply.now_unix_s or 0.0, UTC))[0]
        assert "NO DATA YET: no cycle has succeeded, it tries every 30 s" in first
        assert any("the ledger is locked" in problem for problem in reply.problems)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())


def test_a_node_that_is_just_being_closed_is_given_back_too(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def round_(agent: SiteAgent) -> None:
        def close() -> None:
            begun.set()
            time.sleep(1.0)
            agent.site.scheduler.change_nodes(["n1"], NodeChange.CLOSE, reason="offpeak: sleeps")
            ended.set()

        if not begun.is_set():
            await asyncio.to_thread(close)

    active = replace(settings, agent=replace(settings.agent, mode="active"))
    agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())
    monkeypatch.setattr(agent.queue_loop, "round", partial(round_, agent))

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: active).run())
        assert await asyncio.to_thread(begun.wait, 300)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await asyncio.to_thread(ended.wait, 300)
        assert [node.closed for node in agent.site.scheduler.view().nodes] == [False]
        assert await agent.close() == 0

    asyncio.run(serve())


def test_a_round_that_does_not_end_is_cut_off_and_logged(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, cut_off = threading.Event(), threading.Event()

    async def round_(_agent: SiteAgent) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cut_off.set()

    monkeypatch.setattr(service, "LAST_ROUNDS_S", 0.1)
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())
    monkeypatch.setattr(agent.queue_loop, "round", partial(round_, agent))

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        assert await asyncio.to_thread(begun.wait, 300)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 300)
        assert await agent.close() == 0

    with caplog.at_level(logging.WARNING, "offpeak"):
        asyncio.run(serve())
    assert cut_off.is_set()
    assert "a round under way is cut off after 0.1 s" in caplog.messages


def test_a_feed_that_drips_delays_neither_a_mode_nor_the_end(
    settings: Settings,
    ledger: Ledger,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    feeds = FeedSettings(zone="DE-LU", cache=tmp_path / "feeds", timeout_s=600)
    active = replace(settings, agent=replace(settings.agent, mode="active"), feeds=feeds)
    shadow = replace(active, agent=replace(active.agent, mode="shadow"))

    async def serve(server: DrippingServer) -> None:
        agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())
        running = asyncio.create_task(Service(agent, lambda: shadow).run())
        await asyncio.to_thread(server.wait_for_client)
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(AT_ONCE_S):
            while agent.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(AT_ONCE_S):
            while agent.site.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        assert server.open
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(AT_ONCE_S):
            await running
        assert await agent.close() == 0

    with dripping_proxy("head") as server, caplog.at_level(logging.INFO, "offpeak"):
        asyncio.run(serve(server))
        # That the loop has ended says that no thread was waited for.
        assert server.open
    assert "settings are read again: mode shadow" in caplog.messages


def test_an_order_that_was_decided_in_another_mode_is_refused(
    settings: Settings, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    answers: list[SchedulerOrderResult] = []

    async def round_(agent: SiteAgent) -> None:
        if answers:
            return
        orders, scheduler = (await agent.orders()).scheduler, agent.site.scheduler
        change_nodes = scheduler.change_nodes

        def slowly(nodes: Sequence[str], change: NodeChange, *, reason: str) -> dict[str, str]:
            begun.set()
            assert may_end.wait(300)
            return change_nodes(nodes, change, reason=reason)

        monkeypatch.setattr(scheduler, "change_nodes", slowly)
        changes = (NodeChange.CLOSE, NodeChange.POWER_DOWN)
        answers.extend(await asyncio.gather(*(orders.change_node("n1", each, why="offpeak: idle") for each in changes)))

    async def serve(active: Settings, shadow: Settings) -> None:
        agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())
        monkeypatch.setattr(agent.power_loop, "round", partial(round_, agent))
        running = asyncio.create_task(Service(agent, lambda: shadow).run())
        assert await asyncio.to_thread(begun.wait, 300)
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(AT_ONCE_S):
            while agent.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        may_end.set()
        async with asyncio.timeout(300):
            while agent.site.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        # What was done in the mode before is undone all the same.
        assert [node.closed for node in agent.site.scheduler.view().nodes] == [False]
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    with reserved_ports(1) as (port,):
        active = with_node(replace(settings, agent=replace(settings.agent, mode="active")), tmp_path, port)
        asyncio.run(serve(active, replace(active, agent=replace(active.agent, mode="shadow"))))
    closed, down = (answer.answer for answer in answers)
    assert isinstance(closed, Outcome)
    assert isinstance(down, Refusal)
    assert down.rule == "mode"


def test_a_reload_that_meets_a_fault_of_the_program_leaves_the_next_one_to_close_the_door(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    active = replace(settings, agent=replace(settings.agent, mode="active"))
    answers: list[Settings | Exception] = [RuntimeError("out of luck"), settings]
    agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())

    def reread() -> Settings:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, reread).run())
        await asyncio.sleep(0)
        async with asyncio.timeout(300):
            os.kill(os.getpid(), signal.SIGHUP)
            while len(answers) > 1 or "RuntimeError: out of luck" not in caplog.text:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGHUP)
            while agent.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())


def test_a_mode_holds_though_the_other_settings_cannot_be_used(
    settings: Settings, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    active = replace(settings, agent=replace(settings.agent, mode="active"))
    broken = replace(active, agent=replace(active.agent, mode="shadow", capacity="perpetuum"))
    agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: broken).run())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(300):
            while agent.modes.usual is not Mode.SHADOW:
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())
    assert any("the old ones stay" in message for message in caplog.messages)


def test_nodes_are_given_back_though_the_other_settings_cannot_be_used(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "GIVE_BACK_EVERY_S", 0.1)
    with reserved_ports(1) as ports:
        active = with_node(settings, tmp_path, ports[0])
    active = replace(active, agent=replace(active.agent, mode="active"))
    broken = replace(active, agent=replace(active.agent, mode="shadow", capacity="perpetuum"))
    agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())
    agent.site.scheduler.change_nodes(["n1"], NodeChange.CLOSE, reason="offpeak: sleeps")

    def is_closed() -> bool:
        return agent.site.scheduler.view().nodes[0].closed

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: broken).run())
        await asyncio.sleep(0)
        assert is_closed()
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(300):
            while is_closed():
                await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())


def test_a_node_that_leaves_the_settings_is_given_back_after_the_scheduler_was_away(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[int] = []

    async def away_first(*given: Any, **options: Any) -> dict[str, str]:
        calls.append(1)
        if len(calls) == 1:
            raise SchedulerError("slurmctld does not answer")
        return await give_back(*given, **options)

    monkeypatch.setattr(service, "GIVE_BACK_EVERY_S", 0.1)
    monkeypatch.setattr(service, "give_back", away_first)
    with reserved_ports(1) as ports:
        active = with_node(settings, tmp_path, ports[0])
    active = replace(active, agent=replace(active.agent, mode="active"))
    without = replace(active, agent=replace(active.agent, nodes=None))
    agent = SiteAgent(site_context.make_site_context(active), ledger, ProblemLog())
    agent.site.scheduler.change_nodes(["n1"], NodeChange.CLOSE, reason="offpeak: sleeps")

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: without).run())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(300):
            while agent.site.scheduler.view().nodes[0].closed:
                await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())
    assert len(calls) > 1


def test_a_reload_that_fails_half_way_leaves_the_next_one_to_mend_it(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent, exchange, calls = (
        SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog()),
        SiteAgent.exchange,
        list[site_context.SiteContext](),
    )

    async def failing_once(self: SiteAgent, new: site_context.SiteContext) -> None:
        calls.append(new)
        if len(calls) == 1:
            raise BadLedger("its tables are of another program")
        await exchange(self, new)

    monkeypatch.setattr(SiteAgent, "exchange", failing_once)

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        await asyncio.sleep(0)
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            async with asyncio.timeout(300):
                while len(calls) < count:
                    await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    asyncio.run(serve())
    assert any("not all are in force: BadLedger" in message for message in caplog.messages)


@pytest.mark.parametrize("power", ["on", "off"])
def test_restore_opens_a_node_that_is_off_only_as_powered_down(
    settings: Settings, ledger: Ledger, tmp_path: Path, few_bmcs: list[SimulatedBmc], power: str
) -> None:
    ledger.close()
    bmc = few_bmcs[0]
    bmc.write("power", power)
    with_bmc = with_node(settings, tmp_path, bmc.port, bmc.host)
    scheduler = site_context.make_site_context(with_bmc).scheduler
    scheduler.change_nodes(["n1"], NodeChange.CLOSE, reason="offpeak: idle")
    # Its order to sleep is long ago, and no agent has looked since.
    assert run_restore(with_bmc) == RestoreResult(nodes=("n1",))
    counts_as = PowerState.OFF if power == "off" else PowerState.ON
    assert [(node.closed, node.power) for node in scheduler.view().nodes] == [(False, counts_as)]


def with_node(settings: Settings, folder: Path, port: int, host: str = "127.0.0.1") -> Settings:
    """Return the settings with the machine n1, at whose BMC nobody answers unless one is named.

    An admin's orders are carried out there.
    """
    mode = "advise" if settings.agent.mode == "shadow" else settings.agent.mode
    password, inventory = folder / "bmc.password", folder / "inventory.toml"
    password.touch(mode=0o600)
    password.write_text("secret\n")
    inventory.write_text(INVENTORY.format(port=port, host=host))
    hardware = replace(HardwareSettings(), inventory=inventory, timeout_s=1 if host == "127.0.0.1" else 60)
    return replace(settings, agent=replace(settings.agent, nodes="n1", mode=mode), hardware=hardware)


def test_an_order_that_comes_before_the_first_look_is_to_be_given_again(
    settings: Settings, ledger: Ledger, tmp_path: Path
) -> None:
    def order(*nodes: str) -> NodeRequest:
        return NodeRequest("order", nodes, format_order("soft_off", by="admin jo", reason="new DIMM"))

    async def rounds(agent: SiteAgent) -> None:
        with pytest.raises(BadInput, match="n2: is not managed by offpeak"):
            admin_requests.receive(agent, order("n2"))
        with pytest.raises(OffpeakError, match="n1: the agent has not looked at it yet") as refused:
            admin_requests.receive(agent, order("n1"))
        assert "try again" in refused.value.hint
        await agent.power_loop.round()
        with pytest.raises(BadInput, match="n2: is not managed by offpeak"):
            admin_requests.receive(agent, order("n1", "n2"))
        assert agent.power.records.nodes["n1"].desired is None
        admin_requests.receive(agent, order("n1"))
        desired = agent.power.records.nodes["n1"].desired
        assert desired is not None
        assert (desired.order, desired.by) == (NodeOrder.SOFT_OFF, "admin jo")
        await agent.close()

    with reserved_ports(1) as (port,):
        asyncio.run(
            rounds(SiteAgent(site_context.make_site_context(with_node(settings, tmp_path, port)), ledger, ProblemLog()))
        )


def test_an_order_to_sleep_that_cannot_be_recorded_is_refused_at_once(settings: Settings, tmp_path: Path) -> None:
    ledger = Ledger(settings.ledger, patience_s=0.5)
    ledger._bound_s = 300.0

    def order(what: str) -> NodeRequest:
        return NodeRequest("order", ("n1",), format_order(what, by="admin jo", reason="new DIMM"))

    async def rounds(agent: SiteAgent) -> None:
        await agent.power_loop.round()
        file = settings.ledger.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            ledger.write_decisions([DecisionRecord(1.0, "n1", "sleep", "idle")])
            await asyncio.to_thread(wait_until, ledger.problem, what="the ledger to say that it is locked")
            with pytest.raises(OffpeakError, match=r"n1: nothing is switched off that cannot be recorded: .*locked"):
                admin_requests.receive(agent, order("soft_off"))
            assert agent.power.records.nodes["n1"].desired is None
            admin_requests.receive(agent, order("on"))
            desired = agent.power.records.nodes["n1"].desired
            assert desired is not None
            assert desired.order == NodeOrder.ON
        assert await asyncio.to_thread(ledger.settle, 300.0)
        await agent.close()

    with reserved_ports(1) as (port,):
        asyncio.run(
            rounds(SiteAgent(site_context.make_site_context(with_node(settings, tmp_path, port)), ledger, ProblemLog()))
        )


@pytest.mark.parametrize("refused_by", ["mode", "held"])
def test_an_order_that_the_mode_or_a_hold_forbids_is_refused_at_once_and_recorded(
    settings: Settings, ledger: Ledger, tmp_path: Path, refused_by: str
) -> None:
    async def rounds(agent: SiteAgent) -> None:
        if refused_by == "held":
            ledger.hold("n1", Hold("ann", "new DIMM"), time.time())
        await agent.power_loop.round()
        reason = {"mode": "soft_off is only recorded in mode shadow", "held": "ann holds it: new DIMM"}[refused_by]
        with pytest.raises(OffpeakError, match=re.escape(f"n1: {reason} (rule {refused_by})")) as refused:
            admin_requests.receive(
                agent, NodeRequest("order", ("n1",), format_order("soft_off", by="admin jo", reason="heat"))
            )
        assert refused.value.hint
        assert agent.power.records.nodes["n1"].desired is None
        await agent.close()

    with reserved_ports(1) as (port,):
        site = with_node(settings, tmp_path, port)
        if refused_by == "mode":
            site = replace(site, agent=replace(site.agent, mode="shadow"))
        asyncio.run(rounds(SiteAgent(site_context.make_site_context(site), ledger, ProblemLog())))
    with open_ledger(settings.ledger.url) as connection:
        (action,) = actions_in(connection, TimeRange(0, time.time() + 60), ("n1",))
    assert (action["by"], action["result"], action["rule"]) == ("admin jo", "refused", refused_by)


def test_an_order_is_not_refused_by_the_usual_mode_before_the_partitions_are_known(
    settings: Settings, ledger: Ledger, tmp_path: Path
) -> None:
    order = NodeRequest("order", ("n1",), format_order("soft_off", by="admin jo", reason="heat"))

    async def rounds(agent: SiteAgent) -> None:
        await agent.power_loop.round()
        agent.observer.use(agent.site.scheduler)
        admin_requests.receive(agent, order)
        assert agent.power.records.nodes["n1"].desired is not None
        await agent.observer.view(at_most_s=0)
        with pytest.raises(OffpeakError, match="only recorded in mode shadow"):
            admin_requests.receive(agent, order)
        await agent.close()

    with reserved_ports(1) as (port,):
        site = with_node(settings, tmp_path, port)
        site = replace(site, agent=replace(site.agent, mode="shadow", partition_modes=("gpu=active",)))
        asyncio.run(rounds(SiteAgent(site_context.make_site_context(site), ledger, ProblemLog())))


def test_an_order_has_the_scheduler_read_anew(settings: Settings, ledger: Ledger, tmp_path: Path) -> None:
    async def rounds(agent: SiteAgent) -> None:
        await agent.power_loop.round()
        before = await agent.observer.view(at_most_s=3600)
        assert await agent.observer.view(at_most_s=3600) is before
        admin_requests.receive(
            agent, NodeRequest("order", ("n1",), format_order("soft_off", by="admin jo", reason="new DIMM"))
        )
        assert await agent.observer.view(at_most_s=3600) is not before
        await agent.close()

    with reserved_ports(1) as (port,):
        asyncio.run(
            rounds(SiteAgent(site_context.make_site_context(with_node(settings, tmp_path, port)), ledger, ProblemLog()))
        )


def test_holds_are_read_before_the_first_plan(
    settings: Settings, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An admin held it while no agent ran: what the one before remembers of the node knows of no hold.
    save_node_records(ledger, NodeRecords(), NodeRecords({"n1": record_of()}), monotonic_s=time.monotonic())
    hold = Hold("jo", "new DIMM")
    ledger.hold("n1", hold, time.time())
    with reserved_ports(1) as (port,):
        agent = SiteAgent(site_context.make_site_context(with_node(settings, tmp_path, port)), ledger, ProblemLog())
        planned_by, held = agent.power.plan, []

        async def plan(snapshot: ClusterSnapshot, site: PowerSite) -> PowerPlan:
            held.append(snapshot.records.nodes["n1"].hold)
            return await planned_by(snapshot, site)

        monkeypatch.setattr(agent.power, "plan", plan)

        async def first_round() -> None:
            await agent.power_loop.round()
            await agent.close()

        asyncio.run(first_round())
    assert held == [hold]


def test_bmcs_that_are_reached_by_http_are_logged_at_the_start(
    settings: Settings, ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = tmp_path / "inventory.toml"
    text = INVENTORY.format(port=1, host="http://127.0.0.1").replace('"ipmi"', '"redfish"')
    inventory.write_text(text.replace("port = 1\n", ""))
    (tmp_path / "bmc.password").touch(mode=0o600)
    (tmp_path / "bmc.password").write_text("secret\n")
    settings = replace(settings, hardware=replace(settings.hardware, inventory=inventory))
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        async with asyncio.timeout(300):
            while not any(message.startswith("started in mode") for message in caplog.messages):
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert await agent.close() == 0

    with caplog.at_level(logging.INFO, "offpeak"):
        asyncio.run(serve())
    assert caplog.messages.count("n1: their BMCs are reached over http, passwords travel unencrypted") == 1


SLOW_POLICY = """
import time
def order(view):
    open({begun!r}, "w").close()
    time.sleep(600)
"""


def test_ended_while_an_own_policy_thinks_the_queue_keeps_the_order_of_the_site(
    settings: Settings,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = tmp_path / "begun"
    monkeypatch.syspath_prepend(tmp_path)
    install_policy(tmp_path, "slow_of_service", "slow = slow_of_service:order", SLOW_POLICY.format(begun=str(begun)))
    monkeypatch.setattr(site_context, "PolicyProcess", partial(PolicyProcess, patience_s=5.0))
    monkeypatch.setattr(service, "LAST_ROUNDS_S", 300.0)
    own = replace(settings.agent, queue="slow", allow_own_policies=True, mode="active")
    settings = replace(settings, agent=own, power=replace(settings.power, classes=("hot=400W", "cool=100W")))
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())
    cluster = agent.site.scheduler.cluster
    for at, name in enumerate(("first", "hot", "cool")):
        job = SimJob(0, name, "ann", "batch", (Chunk(1, 8),), 9000.0, int(time.time()), 3600, whole_nodes=True)
        cluster.submit(job).priority = 1000 - at

    async def serve() -> None:
        running = asyncio.create_task(Service(agent, lambda: settings).run())
        async with asyncio.timeout(300):
            while not begun.exists():
                await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 300)
        assert await agent.close() == 0

    asyncio.run(serve())
    assert [job.priority for job in agent.site.scheduler.view().jobs] == [1000, 999, 998]
    (line,) = [message for message in caplog.messages if "policy" in message]
    assert "the queue keeps the site's order: the window policy 'slow' did not answer within 5 s" in line
    assert not any("cut off" in message for message in caplog.messages)


def test_calls_do_not_wait_for_a_name_server_that_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def resolve(*_: object, **__: object) -> list[object]:
        answers.wait(300)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def call_behind_lookups() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(CallThreads())
        lookups = [asyncio.ensure_future(loop.getaddrinfo(f"bmc{number}", 623)) for number in range(2 * MOST_CALLS)]
        await asyncio.sleep(0)
        async with asyncio.timeout(300):
            answer = await asyncio.to_thread(lambda: "scheduler")
        answers.set()
        failed = await asyncio.gather(*lookups, return_exceptions=True)
        assert {type(each) for each in failed} == {socket.gaierror}
        return answer

    with asyncio.Runner(loop_factory=AgentEventLoop) as runner:
        assert runner.run(call_behind_lookups()) == "scheduler"


LARGE_ANSWERS = """
from offpeak.services.agent.service import limit_memory

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

limit_memory()
before_mib = resident_mib()
largest = bytearray(30 * 2**20)
del largest
blocks = [bytearray(b"x") * 2**20 for _ in range(200)]
kept = [bytes(600) for _ in range(10_000)]
del blocks
print(resident_mib() - before_mib)
"""


def test_the_memory_of_large_answers_is_returned_although_small_values_are_kept(repository: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LARGE_ANSWERS], cwd=repository, capture_output=True, check=True)
    assert float(done.stdout) < 40

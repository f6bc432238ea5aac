"""Caps of running nodes in the agent: ordered by `offpeak cap`, kept, read back, and ended with the agent at last."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from served_room import ServedRoom, planned, served_room

from benchmarks.local_slurm.processes import wait_until
from offpeak.door.effect import AGENT
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.model.facility import PowerCap
from offpeak.model.node_cap import NO_CURVE
from offpeak.model.request import Chunk
from offpeak.power.door.cap_orders import CapOrderer, CapRecord
from offpeak.power.drivers.caps import CapState
from offpeak.power.live.power_cap import PowerBudget
from offpeak.services.agent import cap_loop, observer, site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.cap_loop import disobeys
from offpeak.services.agent.demand_response import CapSection, OrderedCaps
from offpeak.services.agent.grid_event import SETTLE_S, EventSection, GridEventLoop
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.restore import run_restore
from offpeak.services.agent.service import Service
from offpeak.settings.agent import AgentSettings, HardwareSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import FlexibilitySettings
from offpeak.settings.replay import PriceSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.sim_backend.virtual.node import BmcFaults
from offpeak.ui.agent.shed import shed_load
from offpeak.ui.nodes.orders import cap, print_caps

INVENTORY = """
[credentials.bmc]
user = "admin"
password_file = "bmc.password"

[hardware.compute]
driver = "ipmi"
credential = "bmc"
port = {port}
node_class = "server"
cap_by = "bmc"
cap_curve = "v100"

[[machines]]
nodes = "n[1-3]"
hardware = "compute"
bmc = "{bmcs}"
"""


@pytest.fixture
def room() -> Iterator[ServedRoom]:
    with served_room(planned("n[1-3]")) as room:
        room.do(lambda room: [node.use(1.0) for node in room.nodes.values()])
        yield room


@pytest.fixture
def settings(room: ServedRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (tmp_path / "bmc.password").touch(mode=0o600)
    (tmp_path / "bmc.password").write_text("secret")
    hosts = room.plan.bmc_hosts
    bmcs = f"{hosts[0].rpartition('.')[0]}.[{hosts[0].rpartition('.')[2]}-{hosts[-1].rpartition('.')[2]}]"
    (tmp_path / "inventory.toml").write_text(INVENTORY.format(port=room.plan.bmc_port, bmcs=bmcs))
    cluster = SimulatedCluster({name: SimNode(name, 8, partitions=frozenset({"batch"})) for name in room.plan.nodes})
    for number, comment in ((1, "offpeak:cap"), (2, ""), (3, "offpeak:cap")):
        cluster.submit(
            SimJob(
                number,
                "job",
                "ann",
                "batch",
                (Chunk(1, 8, 0, 0),),
                9999.0,
                int(time.time()),
                whole_nodes=True,
                comment=comment,
            )
        )
    scheduler = SimulatedScheduler(cluster, clock=time.time)
    scheduler.view()
    monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: scheduler)
    agent = AgentSettings(
        mode="active", nodes="n[1-3]", state_folder=tmp_path, socket=tmp_path / "agent.sock", capacity="always-on"
    )
    return Settings(
        agent=agent,
        hardware=HardwareSettings(inventory=tmp_path / "inventory.toml", timeout_s=60),
        prices=PriceSettings(tariff="on=30EUR/MWh,off=30EUR/MWh,hours=00:00-12:00,zone=UTC"),
        ledger=LedgerSettings(url=f"sqlite:///{tmp_path}/ledger"),
    )


def serve(settings: Settings, act: Callable[[SiteAgent], Awaitable[None]], *, is_killed: bool = False) -> None:
    """Run the agent while it is acted on; one that is killed ends without undoing anything."""
    ledger = Ledger(settings.ledger)
    ledger.ready()
    agent = SiteAgent(site_context.make_site_context(settings), ledger, ProblemLog())

    async def run() -> None:
        service = Service(agent, lambda: settings)
        serving = asyncio.create_task(service.run())
        try:
            async with asyncio.timeout(300):
                while agent.observer.latest is None:
                    await asyncio.sleep(0.05)
                await act(agent)
        finally:
            if is_killed:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
            else:
                service.end()
                await serving
            await agent.close()

    asyncio.run(run())


def watts(room: ServedRoom) -> list[float]:
    return room.do(lambda room: [node.power_w for node in room.nodes.values()])


def test_an_admin_caps_nodes_sees_the_caps_and_ends_them(
    room: ServedRoom, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    full_w = watts(room)[0]
    cap_w = round(full_w - 50)

    async def act(agent: SiteAgent) -> None:
        await asyncio.to_thread(cap, settings, "n[1-2]", f"{cap_w}W", "2h", "heat wave")
        assert watts(room) == [cap_w, cap_w, full_w]
        await asyncio.to_thread(print_caps, settings, as_json=False)
        # The end of a grid event leaves the caps of admins in force.
        assert await agent.node_caps.lift(("n1", "n2"), CapOrderer(AGENT, "the event is over")) == {}
        await asyncio.to_thread(cap, settings, "n1", "off", "2h", "by hand")
        assert watts(room) == [full_w, cap_w, full_w]
        with pytest.raises(OffpeakError, match="not all nodes have the new cap"):
            await asyncio.to_thread(cap, settings, "n3", "10W", "2h", "by hand")

    serve(settings, act)
    said = capsys.readouterr().out
    assert f"n[1-2]: is capped to {cap_w} W" in said
    assert "hardware compute: at full load jobs slow down by" in said
    assert "heat wave" in said
    assert "n1: has its former limit again" in said
    assert "does not accept a limit of 10 W" in said
    # The end of the agent ended the other cap.
    assert watts(room) == [full_w] * 3


def test_without_an_agent_no_cap_is_set(settings: Settings) -> None:
    with pytest.raises(OffpeakError, match="no agent would end a cap"):
        cap(settings, "n1", "200W", "2h", "by hand")
    with pytest.raises(BadInput):
        cap(settings, "n1", "200", "2h", "by hand")


@pytest.mark.parametrize("by_restore", [False, True])
def test_a_cap_that_a_killed_agent_has_left_is_removed(room: ServedRoom, settings: Settings, by_restore: bool) -> None:
    full_w = watts(room)[0]

    async def leave(agent: SiteAgent) -> None:
        plan = await agent.node_caps.plan(("n1", "n2", "n3"), 60.0)
        assert plan.left == {"n2": "n2: not every job on it allows a cap"}
        assert sum(cap.saved_w for cap in plan.caps) >= 60 - 1e-6
        orderer = CapOrderer(AGENT, "grid event", time.time() + 3600)
        outcomes = await agent.node_caps.carry_out(plan.caps, orderer)
        assert {outcome.message for outcome in outcomes.values()} == {"accepted"}
        assert sum(watts(room)) == pytest.approx(3 * full_w - sum(cap.saved_w for cap in plan.caps))

    async def no_caps_left(agent: SiteAgent) -> None:
        while agent.node_caps.records.by_node or watts(room) != [full_w] * 3:
            await asyncio.sleep(0.05)

    with pytest.MonkeyPatch.context() as patch:
        # A killed agent gives nothing back.
        patch.setattr(SiteAgent, "lift_caps", _do_nothing)
        serve(settings, leave, is_killed=True)
    assert watts(room) != [full_w] * 3
    if by_restore:
        assert run_restore(settings).left == ()
        assert watts(room) == [full_w] * 3
    else:
        shadow = replace(settings, agent=replace(settings.agent, mode="shadow"))
        serve(shadow, no_caps_left)


async def _do_nothing(*_: object) -> None:
    return


def test_partitions_of_the_settings_allow_caps(room: ServedRoom, settings: Settings) -> None:
    allowed = replace(settings, flexibility=FlexibilitySettings(partitions={"batch": "cap"}))

    async def act(agent: SiteAgent) -> None:
        plan = await agent.node_caps.plan(("n1", "n2", "n3"), 60.0)
        assert plan.left == {}
        assert watts(room) == [watts(room)[0]] * 3

    serve(allowed, act)


def test_a_cap_ends_when_it_is_over_and_one_that_is_not_obeyed_is_left_alone(
    room: ServedRoom, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cap_loop, "PERIOD_S", 0.1)
    monkeypatch.setattr(cap_loop.CapController, "period_s", 0.1)
    monkeypatch.setattr(cap_loop, "READ_BACK_S", 0.2)
    monkeypatch.setattr(cap_loop, "SETTLED_S", 1.0)
    full_w = watts(room)[0]
    room.do(lambda room: setattr(room.bmcs["n2"], "faults", BmcFaults(ignores_limit=True)))

    async def act(agent: SiteAgent) -> None:
        await asyncio.to_thread(cap, settings, "n1", "500W", "3s", "by hand")
        await asyncio.to_thread(cap, settings, "n2", "200W", "2h", "by hand")
        while agent.node_caps.records.by_node:
            await asyncio.sleep(0.05)
        assert agent.node_caps.left_alone == {
            "n2": f"accepts a cap of 200 W and draws {full_w:.0f} W: the cap has no effect"
        }
        assert "n2" in (await agent.node_caps.plan(("n2",), 60.0)).left

    serve(settings, act)
    wait_until(lambda: watts(room) == [full_w] * 3, what="the former limits")
    assert room.do(lambda room: room.bmcs["n2"].power_limit.active) is False


def test_caps_follow_an_event_that_changes_and_an_admin_who_ends_them(room: ServedRoom, settings: Settings) -> None:
    full_w = sum(watts(room))
    clock, measured_w = [time.time()], dict[str, float]()
    events = OrderedCaps(lambda: CapSection(settings.plan, UTC, 1.0), ProblemLog(), lambda: clock[0])

    async def follow(loop: GridEventLoop, cap_w: float, until_s: float) -> None:
        await events.order(PowerCap(int(clock[0]), int(until_s), int(cap_w), "the grid asks", "admin carla"))
        await loop.round()
        clock[0] += SETTLE_S + 1
        await loop.round()

    async def act(agent: SiteAgent) -> None:
        loop = GridEventLoop(
            section=lambda: EventSection.of(agent.site, lambda: measured_w),
            caps=events,
            budget=lambda: PowerBudget(events.in_force()[0], sum(watts(room))),
            node_caps=agent.node_caps,
            checkpoints=agent.checkpoints,
            observer=agent.observer,
            ledger=agent.ledger,
            problem_log=ProblemLog(),
            clock=lambda: clock[0],
            decide_soon=lambda: None,
        )
        records = agent.node_caps.records.by_node
        await follow(loop, full_w - 60, clock[0] + 600)
        assert sum(watts(room)) <= full_w - 60
        end_s = clock[0] + 7200
        await follow(loop, full_w - 60, end_s)
        assert {record.until_unix_s > end_s for record in records.values()} == {True}, "the event was extended"
        (node, below_w), *_ = loop.capped_w.items()
        measured_w[node] = below_w + 40
        await loop.round()
        assert loop.capped_w[node] == below_w, "its meter may be late"
        clock[0] += 60
        await loop.round()
        assert loop.capped_w[node] == below_w + 40, "its other devices draw more"
        measured_w.clear()
        capped_w = {node: record.cap_w for node, record in records.items()}
        await follow(loop, full_w - 110, end_s)
        assert sum(watts(room)) <= full_w - 110
        assert all(records[node].cap_w <= cap_w for node, cap_w in capped_w.items()), "caps in force are lowered"
        assert records.keys() == {"n1", "n3"}
        await follow(loop, full_w + 200, end_s)
        assert (sum(watts(room)), records) == (full_w, {}), "the cap that replaces it needs none"
        await follow(loop, full_w - 60, end_s)
        assert records
        await agent.node_caps.order(("n1", "n3"), None, CapOrderer("admin carla", "no"))
        clock[0] += SETTLE_S + 1
        await loop.round()
        assert (sum(watts(room)), records) == (full_w, {}), "an admin has ended these caps"

    serve(settings, act)


def test_an_order_in_shadow_mode_says_that_nothing_is_done(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    shadow = replace(settings, agent=replace(settings.agent, mode="shadow"))

    async def act(_agent: SiteAgent) -> None:
        with pytest.raises(BadInput, match="--for 0s: an event lasts longer"):
            shed_load(shadow, "1kW", "0s", None, "frost")
        await asyncio.to_thread(shed_load, shadow, "1kW", "2h", None, "frost")

    serve(shadow, act)
    assert "; in mode shadow the agent only records what it would do\n" in capsys.readouterr().out


def test_jobs_of_a_view_that_is_too_old_consent_to_nothing(
    room: ServedRoom, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(agent: SiteAgent) -> None:
        assert "n1" not in (await agent.node_caps.plan(("n1",), 60.0)).left
        monkeypatch.setattr(observer, "RECENT_S", -1.0)
        assert "n1" in (await agent.node_caps.plan(("n1",), 60.0)).left

    serve(settings, act)
    assert len(set(watts(room))) == 1


def test_a_device_without_a_curve_is_not_even_read(room: ServedRoom, settings: Settings) -> None:
    assert settings.hardware.inventory is not None
    text = settings.hardware.inventory.read_text().replace('cap_curve = "v100"', "")
    settings.hardware.inventory.write_text(text)

    async def act(agent: SiteAgent) -> None:
        room.do(lambda room: setattr(room.bmcs["n1"], "faults", BmcFaults(silent=True)))
        assert (await agent.node_caps.plan(("n1", "n2"), 60.0)).left == {
            "n1": NO_CURVE,
            "n2": "n2: not every job on it allows a cap",
        }

    serve(settings, act)


RECORD = CapRecord("n1", 200, CapState(None), "offpeak", "", 0.0, since_unix_s=1000.0, renewed_unix_s=1000.0)


@pytest.mark.parametrize(
    ("state", "at_unix_s", "reason"),
    [
        (CapState(200, 208), 2000.0, ""),
        (CapState(200, None), 2000.0, ""),
        (CapState(200, 400), 1030.0, ""),
        (
            CapState(200, 400),
            2000.0,
            "accepts a cap of 200 W and draws 400 W: the cap has no effect",
        ),
        (CapState(None, 190), 2000.0, "was capped to 200 W, and has no limit: something else has changed it"),
    ],
)
def test_a_device_is_judged_by_what_is_read_back(state: CapState, at_unix_s: float, reason: str) -> None:
    assert disobeys(RECORD, state, at_unix_s) == reason

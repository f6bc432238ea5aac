"""On/off days of the agent: drawn before they begin, obeyed in the middle of a block, and measured."""

import asyncio
import sqlite3
from collections import Counter, defaultdict, deque
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offpeak.door.effect import Mode
from offpeak.errors import CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import TrialBlock
from offpeak.model.clock import Clock, FastClock
from offpeak.model.constants import DAY_S, HOUR_S
from offpeak.model.orders import NodeState
from offpeak.model.request import Chunk
from offpeak.plugin.scheduler.port import Ranking
from offpeak.services.accounts.account_of_savings import ORDER, SLEEP
from offpeak.services.accounts.trials import find_blocks
from offpeak.services.agent import site_context
from offpeak.services.agent.agent import SiteAgent
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.reports import make_status
from offpeak.services.agent.service import Service
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from offpeak.settings.replay import PowerSettings, PriceSettings, SchedulingSettings
from offpeak.settings.table import Settings
from offpeak.sim_backend.scheduler.cluster import SimJob, SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler
from offpeak.sim_backend.virtual.machine_room import machine_room
from offpeak.sim_backend.virtual.room_plan import room_logins
from offpeak.ui.demo.live_cluster import LiveCluster
from offpeak.ui.demo.site import BEGIN_S, DemoPlan, enrol, write_site

NOON_S = int(datetime(2026, 11, 2, 12, tzinfo=UTC).timestamp())
"""A Monday; electricity is on-peak all day."""


class QueueSite:
    """An agent of one busy node, a hot job that waits for it before a cool one, and a clock that the test sets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.now_s, self.steady_s = folder, float(NOON_S), 0.0
        cluster = SimulatedCluster({"n1": SimNode("n1", 8)})
        self.scheduler = SimulatedScheduler(cluster, clock=lambda: self.now_s, ranking=Ranking.VALUE)
        for at, name in enumerate(("first", "hot", "cool")):
            job = SimJob(0, name, "ann", "batch", (Chunk(1, 8),), 9e9, NOON_S, 90 * DAY_S, whole_nodes=True)
            cluster.submit(job).priority = 1000 - at
            self.scheduler.view()
        monkeypatch.setattr(site_context, "scheduler_of", lambda _settings: self.scheduler)
        self.events = folder / "events.toml"
        self.events.write_text("")
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))

    def start(self, **settings: object) -> SiteAgent:
        agent = AgentSettings(mode="active", state_folder=self.folder, trial="winter", trial_lever="both")
        site = Settings(
            agent=replace(agent, **settings),  # type: ignore[arg-type]
            plan=PlanSettings(events=self.events, openadr_least_w=10.0),
            power=PowerSettings(classes=("hot=400W", "cool=100W")),
            prices=PriceSettings(tariff="on=90EUR/MWh,off=30EUR/MWh,hours=00:00-23:59,zone=UTC"),
            scheduling=SchedulingSettings(max_postponement_s=365 * DAY_S),
            ledger=self.ledger.settings,
        )
        clock = Clock(lambda: self.now_s, lambda: self.steady_s)
        self.agent = SiteAgent(site_context.make_site_context(site, clock), self.ledger, ProblemLog())
        return self.agent

    def go(self, at_s: float, *, passed_s: float = 60.0) -> None:
        """Set the clock; so much time has really passed."""
        self.now_s, self.steady_s = at_s, self.steady_s + passed_s

    def rounds(self, agent: SiteAgent) -> None:
        async def some() -> None:
            await agent.prices.round()
            agent.observer.forget()
            await agent.caps.read_file()
            await agent.caps.query_server()
            await agent.queue_loop.round()
            await agent.trial.round()

        asyncio.run(some())

    def is_reordered(self) -> bool:
        priority = {job.name: job.priority for job in self.scheduler.view().jobs}
        return priority["cool"] > priority["hot"]

    def rows(self) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.folder / "ledger.sqlite")) as connection:
            return connection.execute("SELECT * FROM trial_days ORDER BY from_unix_s, lever").fetchall()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QueueSite:
    return QueueSite(tmp_path, monkeypatch)


def middle_of(blocks: tuple[TrialBlock, ...], lever: str, *, is_on: bool) -> float:
    own = [each for each in blocks if each.lever == lever and each.is_on is is_on]
    return (own[0].from_unix_s + own[0].until_unix_s) / 2


def test_the_days_stand_in_the_ledger_before_the_first_begins_and_stay(site: QueueSite) -> None:
    agent = site.start()
    site.rounds(agent)
    rows = site.rows()
    assert len(rows) == 2 * 56
    blocks = agent.trial.blocks
    assert blocks[0].from_unix_s == NOON_S + DAY_S / 2
    assert all(block.drawn_unix_s == NOON_S for block in blocks)
    # Another start in the middle of the trial, with other settings: the drawn days stay, and the agent says so.
    site.go(middle_of(blocks, SLEEP, is_on=False))
    other = site.start(trial_days=28)
    site.rounds(other)
    assert other.trial.blocks == blocks
    assert any("was drawn with other settings" in problem for problem in other.problem_log.problems)
    assert site.rows() == rows
    # Another name begins another trial, and none ends it.
    later = site.start(trial="spring")
    site.rounds(later)
    assert later.trial.blocks[0].from_unix_s > site.now_s
    assert len(site.rows()) == 4 * 56
    without = site.start(trial=None)
    site.rounds(without)
    assert without.trial.blocks == ()


def test_a_draw_late_in_the_evening_begins_a_day_later(site: QueueSite) -> None:
    site.now_s = NOON_S + 11.5 * HOUR_S
    agent = site.start()
    site.rounds(agent)
    assert agent.trial.blocks[0].from_unix_s == NOON_S + 1.5 * DAY_S


def test_the_queue_has_the_sites_order_on_days_off_and_ours_on_days_on(site: QueueSite) -> None:
    agent = site.start()
    site.rounds(agent)
    assert site.is_reordered()
    for is_on in (False, True, False):
        site.go(middle_of(agent.trial.blocks, ORDER, is_on=is_on))
        site.rounds(agent)
        assert site.is_reordered() is is_on
        # An agent that starts in the middle of the block, and a clock that goes back into another.
        restarted = site.start()
        site.rounds(restarted)
        assert site.is_reordered() is is_on
    site.go(agent.trial.blocks[-1].until_unix_s)
    site.rounds(agent)
    assert site.is_reordered()


def test_while_sleep_is_off_no_node_may_sleep_unless_a_cap_on_power_holds(site: QueueSite) -> None:
    agent = site.start()
    site.rounds(agent)
    assert agent.site_in_force.settings == agent.site.settings
    at_s = middle_of(agent.trial.blocks, SLEEP, is_on=False)
    site.go(at_s)
    site.rounds(agent)
    assert agent.site_in_force.settings.agent.capacity == "always-on"
    assert agent.site_in_force.settings.capacity.keep_hot >= len(agent.site.machines)
    status = make_status(agent)
    assert status is not None
    assert any(each.startswith("sleep is off until ") for each in status.capacity)
    begin, end = (datetime.fromtimestamp(at_s + hours * HOUR_S, UTC) for hours in (0.5, 3))
    form = "%Y-%m-%dT%H:%M:%SZ"
    site.events.write_text(f"[[event]]\nbegin = {begin:{form}}\nend = {end:{form}}\ncap_w = 50\nreason = 'grid'\n")
    site.rounds(agent)
    assert agent.site_in_force.settings.agent.capacity == agent.site.settings.agent.capacity


def test_a_partition_has_days_of_its_own_for_its_jobs_and_its_nodes(site: QueueSite) -> None:
    cluster = site.scheduler.cluster
    cluster.nodes["n1"].partitions = frozenset({"batch"})
    cluster.nodes["n2"] = SimNode("n2", 8, partitions=frozenset({"gpu"}))
    agent = site.start(trial_partitions=("batch", "gpu"))
    site.rounds(agent)
    blocks = agent.trial.blocks
    assert len(blocks) == len(site.rows()) == 4 * 56
    for lever in (SLEEP, ORDER):
        of = {
            each: [block.is_on for block in blocks if block.name == f"{lever} of {each}"] for each in ("batch", "gpu")
        }
        assert of["batch"] != of["gpu"]
        assert {sum(days) for days in of.values()} == {28}
    own = [block for block in blocks if block.lever == ORDER and block.partition == "batch"]
    for is_on in (True, False, True):
        site.go(next(block.from_unix_s + 6 * HOUR_S for block in own if block.is_on is is_on))
        site.rounds(agent)
        assert site.is_reordered() is is_on
        off = {block.partition for block in find_blocks(blocks, site.now_s, is_on=False) if block.lever == SLEEP}
        assert agent.site_in_force.awake_partitions == off
        assert agent.site_in_force.settings == agent.site.settings
        status = make_status(agent)
        assert status is not None
        assert (any("order of batch is off until" in note for note in status.capacity)) is not is_on
    # An agent that starts in the middle of a block knows it before it knows the nodes.
    restarted = site.start(trial_partitions=("batch", "gpu"))
    restarted.trial.load()
    assert restarted.trial.blocks == blocks


def test_partitions_that_share_nodes_have_no_days_of_their_own(site: QueueSite) -> None:
    node = site.scheduler.cluster.nodes["n1"]
    node.partitions = frozenset({"batch", "debug"})
    agent = site.start(trial_partitions=("batch",))
    site.rounds(agent)
    assert agent.trial.blocks == ()
    problem = "trial winter is not drawn: trial_partitions: batch shares nodes with debug"
    assert f"trial: {problem}" in agent.problem_log.problems
    assert site.rows() == []
    node.partitions = frozenset({"batch"})
    site.rounds(agent)
    assert {block.name for block in agent.trial.blocks} == {"sleep of batch", "order of batch"}
    assert not any("trial" in problem for problem in agent.problem_log.problems)


def test_only_time_in_mode_active_counts_and_a_clock_that_was_set_does_not(site: QueueSite) -> None:
    agent = site.start()
    site.rounds(agent)
    first = agent.trial.blocks[0]
    # Two hours pass, of which one is in the first block.
    for now_s, passed_s in ((1, 2), (3, 2), (9, 0.25), (4, 0)):
        site.go(first.from_unix_s + now_s * HOUR_S, passed_s=passed_s * HOUR_S)
        site.rounds(agent)
    agent.next_modes = replace(agent.modes, usual=Mode.SHADOW)
    site.go(first.from_unix_s + 12 * HOUR_S, passed_s=8 * HOUR_S)
    site.rounds(agent)
    restarted = site.start()
    site.rounds(restarted)
    assert restarted.trial._obeyed_s == {first.from_unix_s: 3.25 * HOUR_S}


def test_nothing_is_drawn_that_cannot_be_written(site: QueueSite, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = site.start()

    def refuse(_blocks: object, *, may_begin: bool) -> None:
        assert may_begin
        raise CannotWrite("the disk is full", hint="free some space")

    with monkeypatch.context() as broken:
        broken.setattr(site.ledger, "draw_trial", refuse)
        with pytest.raises(CannotWrite):
            site.rounds(agent)
        assert agent.trial.blocks == ()
    site.rounds(agent)
    assert len(agent.trial.blocks) == len(site.rows()) == 2 * 56


@pytest.mark.nightly
def test_nodes_sleep_on_half_days_on_and_are_awake_on_half_days_off(tmp_path: Path) -> None:
    plan = DemoPlan(tmp_path / "demo", nodes=8, factor=1800.0, hardware_port=7241)
    settings = write_site(plan)
    trial = replace(settings.agent, trial="fast", trial_days=14, trial_block="half-day", capacity="timeout:10min")
    settings = replace(settings, agent=trial)
    most: dict[TrialBlock, Counter[NodeState]] = defaultdict(Counter)

    async def run() -> None:
        async with machine_room(plan.room, room_logins(plan.folder)) as room:
            enrol(plan, room)
            ledger = Ledger(settings.ledger)
            ledger.ready()
            # In the evening, two and a half hours before the trial begins.
            clock = FastClock(plan.factor, BEGIN_S + 16.5 * HOUR_S)
            live = LiveCluster(room, plan.cluster, deque(), clock.unix_s)
            context = replace(site_context.make_site_context(settings, clock.clock), scheduler=live.scheduler)
            agent = SiteAgent(context, ledger, ProblemLog(clock.unix_s))
            for runner in agent.runners:
                await runner.once()
            clock.start()
            service = Service(agent, lambda: settings)
            running = asyncio.create_task(service.run())
            assert agent.trial.blocks[0].drawn_unix_s < clock.unix_s() < agent.trial.blocks[0].from_unix_s
            while {block.is_on for block in most} != {True, False} or len(most) < 3:
                live.follow()
                for block in find_blocks(agent.trial.blocks, clock.unix_s()):
                    if clock.unix_s() > block.until_unix_s - 4 * HOUR_S:
                        # A BMC that answers late on a busy machine leaves a node unknown for a while: most at once.
                        most[block] |= Counter(each.observed.state for each in agent.power.records.nodes.values())
                await asyncio.sleep(0.05)
            service.end()
            await running
            await agent.close()

    asyncio.run(run())
    awake = settings.agent.min_on
    for block, states in most.items():
        counts = {state: count for state, count in states.items() if state is not NodeState.UNKNOWN}
        assert counts == ({NodeState.ON: awake, NodeState.OFF: 8 - awake} if block.is_on else {NodeState.ON: 8}), block

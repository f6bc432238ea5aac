"""An order to sleep while no agent runs: the updates to the scheduler before and after it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from guarded_room import ALL_OPEN, GuardedRoom, guarded_room

from offpeak.door.effect import Effect, Hold
from offpeak.errors import BadInput, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.model.orders import NodeOrder
from offpeak.power.check.standby import OrderRefused
from offpeak.power.lifecycle.node_record import DesiredState, NodeRecord
from offpeak.services.agent.node_closer import NodeCloser
from offpeak.settings.agent import AgentSettings
from offpeak.settings.ledger import LedgerSettings
from offpeak.sim_backend.scheduler.cluster import SimNode, SimulatedCluster
from offpeak.sim_backend.scheduler.simulated import SimulatedScheduler

pytestmark = pytest.mark.quick

BY = "admin ada"
DESIRED = DesiredState(NodeOrder.SOFT_OFF, BY, 0.0, "fan")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRoom]:
    with guarded_room(tmp_path_factory.mktemp("room"), "n[1-2]") as made:
        yield made


class Site:
    """An open node and what closes it; `send` is what orders it."""

    def __init__(self, room: GuardedRoom, folder: Path, settings: AgentSettings) -> None:
        self.room = room
        self.node = SimNode("n1", 8)
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        scheduler = SimulatedScheduler(SimulatedCluster({"n1": self.node}), clock=time.time)
        self.closer = NodeCloser(room.inventory, settings, self.ledger, room.wire, scheduler)
        self.machine = next(machine for machine in room.inventory.machines if machine.node == "n1")

    def order(self, send: Callable[[], Awaitable[NodeRecord]]) -> tuple[NodeRecord, str]:
        try:
            return self.room.run(self.closer.close_first(self.machine, DESIRED, send))
        finally:
            self.room.run(self.room.wire.close())


@pytest.fixture
def made(room: GuardedRoom, tmp_path: Path) -> Iterator[Callable[[AgentSettings], Site]]:
    sites: list[Site] = []

    def make(settings: AgentSettings) -> Site:
        sites.append(Site(room, tmp_path, settings))
        return sites[-1]

    yield make
    for site in sites:
        site.ledger.close()


async def never() -> NodeRecord:
    raise AssertionError("was ordered")


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (AgentSettings(mode="shadow", nodes="n1"), "mode"),
        (AgentSettings(mode="active", nodes="n2"), "opted_in"),
        (AgentSettings(mode="active", nodes="n1"), "held"),
    ],
)
def test_a_node_that_may_not_be_closed_is_not_ordered(
    made: Callable[[AgentSettings], Site], settings: AgentSettings, rule: str
) -> None:
    site = made(settings)
    if rule == "held":
        site.ledger.hold("n1", Hold("jo", "a benchmark"), time.time())
    with pytest.raises(OrderRefused, match=rf"\(rule {rule}\)"):
        site.order(never)
    assert site.node.shut == set()


def test_node_is_reopened_if_no_order_was_sent(made: Callable[[AgentSettings], Site]) -> None:
    site = made(replace(ALL_OPEN, nodes="n1"))
    closed: list[bool] = []

    async def send() -> NodeRecord:
        closed.append(bool(site.node.shut))
        raise BadInput("no such way")

    with pytest.raises(BadInput, match="no such way"):
        site.order(send)
    assert (closed, site.node.shut) == ([True], set())


def test_node_stays_closed_if_the_round_ends_after_the_order(made: Callable[[AgentSettings], Site]) -> None:
    site = made(replace(ALL_OPEN, nodes="n1"))

    async def send() -> NodeRecord:
        site.ledger.write_intent(Effect("n1", NodeOrder.SOFT_OFF, BY, "fan"), time.time())
        raise asyncio.CancelledError

    with pytest.raises(OffpeakError, match="n1: interrupted; it may still follow an order to sleep, and stays closed"):
        site.order(send)
    assert site.node.shut
    # Nor does a wake of a node that is up all the time open it.
    note = site.room.run(site.closer.open_if_ours("n1", BY, was_up=True))
    assert "may still follow an order to sleep" in note
    assert site.node.shut
    assert site.room.run(site.closer.open_if_ours("n1", BY, was_up=False)) == "open to jobs again"
    assert site.node.shut == set()

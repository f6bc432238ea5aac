"""The meter loop refuses readings that cannot be, names the nodes, and forgets the problem after a day."""

import asyncio
from pathlib import Path

from offpeak.errors import NoAnswer
from offpeak.ledger.database import open_ledger
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import node_means
from offpeak.model.node_class_file import bundled_node_class
from offpeak.model.orders import NodeState
from offpeak.model.time_range import TimeRange
from offpeak.power.meters.plausibility import find_draw_bound
from offpeak.power.meters.port import Reading
from offpeak.services.accounts.metering import MeteredSite, Pace
from offpeak.services.agent.accounting_loops import MeterLoop, MeterSection
from offpeak.services.agent.loop import ProblemLog
from offpeak.settings.ledger import LedgerSettings

OFF = find_draw_bound(bundled_node_class("server"), NodeState.OFF)


class Bmc:
    """A meter whose reading is set."""

    def __init__(self, name: str, way: str = "dcmi") -> None:
        self.name, self.way, self.at_unix_s = name, way, 0.0
        self.power_w: float | None = 20.0
        self.is_silent = False

    async def read(self) -> tuple[Reading, ...]:
        return (Reading(self.name, self.way, "total", self.power_w, self.at_unix_s, node=self.name),)

    async def close(self) -> None:
        """Do nothing."""


class Outlet(Bmc):
    """A PDU with one outlet, which feeds n1."""

    async def read(self) -> tuple[Reading, ...]:
        if self.is_silent:
            raise NoAnswer(f"{self.name}: silent")
        return (Reading(self.name, self.way, "outlet 1", self.power_w, self.at_unix_s, node="n1"),)


def test_refused_readings_are_not_shown_and_are_named_for_a_day(tmp_path: Path) -> None:
    meters = [Bmc(f"n{number}") for number in (1, 2, 3)]
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    section = MeterSection(lambda: meters, Pace(10.0, 5.0), MeteredSite(lambda _: OFF))
    problem_log = ProblemLog()
    loop = MeterLoop(lambda: section, ledger, problem_log, lambda: meters[0].at_unix_s, lambda: meters[0].at_unix_s)

    async def read(at_unix_s: float, *power_w: float) -> None:
        for meter, value in zip(meters, power_w, strict=True):
            meter.at_unix_s, meter.power_w = at_unix_s, value
        await loop.round()

    async def rounds() -> None:
        await read(1000.0, 20.0, 20.0, 20.0)
        assert (loop.watts, loop.refused_readings, problem_log.problems) == (60.0, 0, ())
        await read(1010.0, 25_550.0, 25_450.0, 20.0)
        assert (loop.watts, loop.refused_readings) == (20.0, 2)
        assert problem_log.problems == (
            "readings: n1: has readings that are refused: 25,550 W, more than 1,050 W, the most that is possible for a "
            "node of class server; 1 more like it in n[1-2]",
        )
        await read(1020.0, 20.0, 20.0, 20.0)
        assert loop.watts == 60.0
        await read(1010.0 + 86_400, 20.0, 20.0, 20.0)
        assert problem_log.problems == ()
        assert loop.refused_readings == 2

    asyncio.run(rounds())
    ledger.close()


def test_an_outlet_that_is_silent_since_the_agent_started_is_a_gap_of_its_node(tmp_path: Path) -> None:
    bmc, first, second = Bmc("n1"), Outlet("pdu-a", "snmp"), Outlet("pdu-b", "snmp")
    bmc.power_w, first.power_w, second.power_w = 210.0, 120.0, 110.0
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    section = MeterSection(lambda: (bmc, first, second), Pace(10.0, 5.0), MeteredSite())

    async def rounds(begin_s: int) -> None:
        loop = MeterLoop(lambda: section, ledger, ProblemLog(), lambda: bmc.at_unix_s, lambda: bmc.at_unix_s)
        for at_s in range(begin_s, begin_s + 901, 10):
            bmc.at_unix_s = first.at_unix_s = second.at_unix_s = float(at_s)
            await loop.round()
        ledger.settle()

    asyncio.run(rounds(900))
    second.is_silent = True
    asyncio.run(rounds(1800))
    with open_ledger(ledger.settings.url) as connection:
        means = node_means(connection, TimeRange(900.0, 2700.0))
    assert [(mean.at_unix_s, mean.power_w) for mean in means] == [(900, 230.0), (1800, 210.0)]
    ledger.close()


def test_a_reading_older_than_it_holds_says_nothing_of_the_present_power(tmp_path: Path) -> None:
    bmc, first, second = Bmc("n1"), Outlet("pdu-a", "snmp"), Outlet("pdu-b", "snmp")
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path}/ledger.sqlite"))
    section = MeterSection(lambda: (bmc, first, second), Pace(10.0, 5.0), MeteredSite())
    now = [1000.0]
    loop = MeterLoop(lambda: section, ledger, ProblemLog(), lambda: now[0], lambda: now[0])

    async def read(**at_unix_s: float) -> None:
        bmc.at_unix_s, first.at_unix_s, second.at_unix_s = at_unix_s.values()
        await loop.round()

    async def rounds() -> None:
        bmc.power_w, first.power_w, second.power_w = 210.0, 120.0, 110.0
        await read(bmc=1000.0, first=1000.0, second=1000.0)
        assert loop.node_watts == {"n1": 230.0}
        now[0] = 1030.0
        assert loop.node_watts == {"n1": 230.0}
        now[0] = 1031.0
        assert (loop.node_watts, loop.watts) == ({}, None)
        # Of two supplies one is not known: the node's own sensor knows both.
        await read(bmc=1031.0, first=1031.0, second=1000.0)
        assert loop.node_watts == {"n1": 210.0}
        first.power_w = None
        await read(bmc=1031.5, first=1031.5, second=1031.5)
        assert loop.node_watts == {"n1": 210.0}
        now[0] = 900.0
        assert loop.node_watts == {}

    asyncio.run(rounds())
    ledger.close()

"""Reports to an OpenADR server: measured energy and power of each cap, sent once, and again while it is refused."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from openadr_vtn import TestVtn, openadr_vtn

from offpeak.display import utc_text
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import MeterReading
from offpeak.model.constants import DAY_S
from offpeak.services.agent.demand_response import ORDERED_EVENT, REPORTS, SETTLE_S, CapSection, OrderedCaps, ReportLoop
from offpeak.services.agent.loop import ProblemLog
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings

BEGIN_S = 1_795_363_200
LASTS_S = 700
END_S = BEGIN_S + LASTS_S


@pytest.fixture
def vtn() -> Iterator[TestVtn]:
    with openadr_vtn() as made:
        made.order("e1", from_s=BEGIN_S, until_s=END_S, cap_w=900.0)
        yield made


class Reporter:
    """The loops of server and reports, on a clock of their own, with a ledger of two nodes of 300 and 400 W."""

    def __init__(self, folder: Path, vtn: TestVtn, *, client: str | None = "hpc-1", mode: str = "active") -> None:
        self.now_s, self.problems = float(BEGIN_S + 10), ProblemLog()
        plan = PlanSettings(openadr=vtn.url, openadr_client=client)
        section = CapSection(plan, UTC, timeout_s=120.0, memory=folder / "events.json")
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder}/ledger.sqlite"))
        self.ledger.ready()
        self.caps = OrderedCaps(lambda: section, self.problems, lambda: self.now_s)
        self.loop = ReportLoop(self.caps, self.ledger, self.problems, lambda: self.now_s, lambda: mode == "active")

    def measure(
        self, from_s: float = BEGIN_S - 60, until_s: float = END_S + 60, *, nodes: tuple[str, ...] = ("n1", "n2")
    ) -> None:
        rows = [
            MeterReading(f"bmc of {node}", "dcmi", "total", from_s, until_s, power_w, node=node)
            for node, power_w in (("n1", 300.0), ("n2", 400.0))
            if node in nodes
        ]
        self.ledger.write_readings(rows)
        self.ledger.settle()

    def round(self, at_s: float) -> None:
        async def once() -> None:
            await self.caps.query_server()
            await self.loop.round()

        self.now_s = float(at_s)
        asyncio.run(once())

    @property
    def problem(self) -> str:
        return "; ".join(each for each in self.problems.problems if each.startswith(REPORTS))


@pytest.fixture
def reporter(tmp_path: Path, vtn: TestVtn) -> Iterator[Reporter]:
    made = Reporter(tmp_path, vtn)
    yield made
    made.ledger.close()


def test_what_was_drawn_is_reported_once_after_the_end(reporter: Reporter, vtn: TestVtn) -> None:
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    reporter.round(END_S + SETTLE_S - 1)
    assert vtn.reports == []
    vtn.events.clear()
    for later_s in (0, 30, 60):
        reporter.round(END_S + SETTLE_S + later_s)
    (report,) = vtn.reports
    assert {key: report[key] for key in ("programID", "eventID", "clientName", "reportName")} == {
        "programID": "flex",
        "eventID": "e1",
        "clientName": "hpc-1",
        "reportName": "evening peak 2026-11-22T16:00:00Z",
    }
    units = {each["payloadType"]: (each["units"], each["confidence"]) for each in report["payloadDescriptors"]}
    assert units == {"USAGE": ("KWH", 100), "DEMAND": ("KW", 100)}
    (resource,) = report["resources"]
    assert resource["resourceName"] == "hpc-1"
    assert resource["intervalPeriod"] == {"start": "2026-11-22T16:00:00Z", "duration": "PT700S"}
    lengths_s = [300, 300, 100]
    assert [interval["intervalPeriod"]["duration"] for interval in resource["intervals"]] == [
        f"PT{length_s}S" for length_s in lengths_s
    ]
    for interval, length_s in zip(resource["intervals"], lengths_s, strict=True):
        values = {payload["type"]: payload["values"] for payload in interval["payloads"]}
        assert values["DEMAND"] == [pytest.approx(0.7)]
        assert values["USAGE"] == [pytest.approx(0.7 * length_s / 3600, abs=1e-6)]


def test_a_report_that_is_refused_is_one_problem_and_is_sent_again(reporter: Reporter, vtn: TestVtn) -> None:
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    vtn.refuses = 403
    reporter.round(END_S + SETTLE_S)
    assert "evening peak: openadr: HTTP 403 from 127.0.0.1:" in reporter.problem
    vtn.refuses = 0
    reporter.round(END_S + SETTLE_S + 30)
    assert len(vtn.reports) == 1
    assert reporter.problem == ""


@pytest.mark.parametrize("fault", ["hangs", "gone"])
def test_a_server_that_hangs_or_is_gone_blocks_nothing_and_gets_its_report_later(
    reporter: Reporter, vtn: TestVtn, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    with monkeypatch.context() as away:
        vtn.hangs = fault == "hangs"
        plan = PlanSettings(openadr=vtn.url if vtn.hangs else "http://127.0.0.1:9/openadr3", openadr_client="hpc-1")
        away.setattr(reporter.caps, "section", lambda: CapSection(plan, UTC, timeout_s=1.0))
        reporter.round(END_S + SETTLE_S)
        assert reporter.problem
        # The cap itself stays known.
        assert reporter.caps.server_events[0].event_id == "e1"
        vtn.hangs = False
    reporter.round(END_S + SETTLE_S + 60)
    assert (len(vtn.reports), reporter.problem) == (1, "")


def test_a_cap_that_is_withdrawn_is_reported_up_to_then(reporter: Reporter, vtn: TestVtn) -> None:
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    vtn.events.clear()
    # The first reading without it may not have been complete.
    reporter.round(BEGIN_S + 90)
    reporter.round(BEGIN_S + 120)
    reporter.round(BEGIN_S + 120 + SETTLE_S)
    (report,) = vtn.reports
    assert report["resources"][0]["intervalPeriod"]["duration"] == "PT120S"


@pytest.mark.parametrize("lasts_s", [60, 240])
def test_a_cap_that_the_server_shortens_is_reported_up_to_its_new_end(
    reporter: Reporter, vtn: TestVtn, lasts_s: int
) -> None:
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    vtn.events.clear()
    vtn.order("e1", from_s=BEGIN_S, until_s=BEGIN_S + lasts_s, cap_w=900.0)
    reporter.round(BEGIN_S + 120)
    reporter.round(BEGIN_S + 240 + SETTLE_S)
    (report,) = vtn.reports
    assert report["resources"][0]["intervalPeriod"]["duration"] == f"PT{lasts_s}S"


def test_gaps_lower_the_confidence_and_the_mean_stands_for_them(reporter: Reporter, vtn: TestVtn) -> None:
    reporter.measure(BEGIN_S, END_S - 50)
    reporter.round(BEGIN_S + 30)
    reporter.round(END_S + SETTLE_S)
    (report,) = vtn.reports
    assert {each["confidence"] for each in report["payloadDescriptors"]} == {50}
    last = report["resources"][0]["intervals"][-1]["payloads"]
    assert next(each["values"] for each in last if each["type"] == "DEMAND") == [pytest.approx(0.7)]


@pytest.mark.parametrize(("silent", "confidence"), [(("n2",), 50), (("n1", "n2"), 0)])
def test_a_node_without_a_reading_in_an_interval_counts_with_its_mean_during_the_cap(
    reporter: Reporter, vtn: TestVtn, silent: tuple[str, ...], confidence: int
) -> None:
    reporter.measure(BEGIN_S - 60, BEGIN_S + 300)
    reporter.measure(BEGIN_S + 300, BEGIN_S + 600, nodes=tuple({"n1", "n2"} - {*silent}))
    reporter.measure(BEGIN_S + 600, END_S + 60)
    reporter.round(BEGIN_S + 30)
    reporter.round(END_S + SETTLE_S)
    (report,) = vtn.reports
    assert {each["confidence"] for each in report["payloadDescriptors"]} == {confidence}
    demands = [
        value
        for interval in report["resources"][0]["intervals"]
        for each in interval["payloads"]
        for value in each["values"]
        if each["type"] == "DEMAND"
    ]
    assert demands == pytest.approx([0.7, 0.7, 0.7])


def test_without_meters_there_is_one_problem_and_no_report(reporter: Reporter, vtn: TestVtn) -> None:
    reporter.round(BEGIN_S + 30)
    reporter.round(END_S + SETTLE_S)
    assert vtn.reports == []
    assert "no node was measured during the event" in reporter.problem


@pytest.mark.parametrize("settings", [{"client": None}, {"mode": "shadow"}])
def test_without_a_name_and_in_mode_shadow_nothing_is_sent(tmp_path: Path, vtn: TestVtn, settings) -> None:
    reporter = Reporter(tmp_path, vtn, **settings)
    reporter.measure()
    reporter.round(BEGIN_S + 30)
    reporter.round(END_S + SETTLE_S)
    assert (vtn.reports, reporter.problem) == ([], "")
    reporter.ledger.close()


def test_a_restart_while_the_server_is_away_leaves_its_caps_in_force(
    reporter: Reporter, vtn: TestVtn, tmp_path: Path
) -> None:
    reporter.round(BEGIN_S + 30)
    (known,) = reporter.caps.ahead()

    def caps_after_restart(**plan: str) -> OrderedCaps:
        section = CapSection(PlanSettings(**plan), UTC, timeout_s=1.0, memory=tmp_path / "events.json")
        caps = OrderedCaps(lambda: section, ProblemLog(), lambda: float(BEGIN_S + 60))
        asyncio.run(caps.query_server())
        return caps

    vtn.hangs = True
    assert caps_after_restart(openadr=vtn.url).ahead() == (known,)
    # The events of another server say nothing about this one.
    assert caps_after_restart(openadr="http://127.0.0.1:9/openadr3").ahead() == ()
    (tmp_path / "events.json").write_text("{")
    assert caps_after_restart(openadr=vtn.url).ahead() == ()


def test_a_restart_with_a_damaged_file_leaves_its_caps_in_force_for_a_day(tmp_path: Path) -> None:
    file, problems = tmp_path / "events.toml", ProblemLog()
    file.write_text(
        f'[[event]]\nbegin = {utc_text(BEGIN_S)}\nend = {utc_text(BEGIN_S + 3 * DAY_S)}\ncap_w = 500\nreason = "grid"\n'
    )
    plan = PlanSettings(events=file, openadr_longest_s=7 * DAY_S)
    section = CapSection(plan, UTC, timeout_s=1.0, file_memory=tmp_path / "kept.json")

    def caps_after_restart(now_s: float) -> list[int]:
        caps = OrderedCaps(lambda: section, problems, lambda: now_s)
        asyncio.run(caps.read_file())
        return [cap.cap_w for cap in caps.ahead()]

    assert caps_after_restart(BEGIN_S) == [500]
    file.write_text("[[event")
    assert caps_after_restart(BEGIN_S + 60) == [500]
    assert f"1 cap of before until {utc_text(BEGIN_S + DAY_S)} at the latest" in str(problems.problems)
    assert caps_after_restart(BEGIN_S + DAY_S) == []


def test_an_operator_ends_what_the_server_orders_also_for_the_next_agent(reporter: Reporter, vtn: TestVtn) -> None:
    section = replace(reporter.caps.section(), ordered=reporter.ledger)

    def caps_of_an_agent() -> OrderedCaps:
        return OrderedCaps(lambda: section, reporter.problems, lambda: reporter.now_s)

    async def scene() -> None:
        first = caps_of_an_agent()
        await first.query_server()
        assert [cap.cap_w for cap in first.in_force()] == [900]
        await first.order(None)
        for caps in (first, caps_of_an_agent()):
            await caps.load_ordered()
            await caps.query_server()
            assert caps.ahead() == ()
            vtn.order("e2", from_s=BEGIN_S, until_s=END_S, cap_w=500.0)
            await caps.query_server()
            assert [cap.cap_w for cap in caps.in_force()] == [500]
            del vtn.events[1]
            await caps.query_server()
            await caps.query_server()

    asyncio.run(scene())


def test_an_event_that_an_operator_has_ended_stays_so_until_its_own_end(reporter: Reporter, vtn: TestVtn) -> None:
    section = replace(reporter.caps.section(), ordered=reporter.ledger)

    def caps_of_an_agent() -> OrderedCaps:
        return OrderedCaps(lambda: section, reporter.problems, lambda: reporter.now_s)

    async def read(caps: OrderedCaps, times: int, now_s: float) -> list[int]:
        reporter.now_s = now_s
        for _ in range(times):
            await caps.query_server()
        return [cap.cap_w for cap in caps.ahead()]

    async def scene() -> None:
        caps, ordered = caps_of_an_agent(), list(vtn.events)
        await caps.load_ordered()
        assert await read(caps, 1, BEGIN_S + 10) == [900]
        assert await caps.order(None) == 1
        vtn.events.clear()
        assert await read(caps, 3, BEGIN_S + 20) == []
        assert await caps.order(None) == 0
        vtn.events.extend(ordered)
        for each in (caps, caps_of_an_agent()):
            await each.load_ordered()
            assert await read(each, 2, BEGIN_S + 30) == []
        # The server puts off its end.
        vtn.events.clear()
        vtn.order("e1", from_s=BEGIN_S, until_s=END_S + 600, cap_w=900.0)
        assert await read(caps, 1, END_S - 1) == []
        assert await read(caps, 1, END_S + 300) == []
        assert '"e1"' in (reporter.ledger.remembered(ORDERED_EVENT) or "")
        assert await read(caps, 1, END_S + 600) == []
        assert '"e1"' not in (reporter.ledger.remembered(ORDERED_EVENT) or "")
        vtn.events.clear()
        vtn.order("e1", from_s=END_S + 600, until_s=END_S + 900, cap_w=800.0)
        assert await read(caps, 1, END_S + 610) == [800], "a new event of that id"

    asyncio.run(scene())


def test_what_an_agent_of_an_earlier_version_has_kept_as_ended_stays_so(reporter: Reporter) -> None:
    reporter.ledger.keep(ORDERED_EVENT, '["",[],["e1"],0]')
    section = replace(reporter.caps.section(), ordered=reporter.ledger)
    caps = OrderedCaps(lambda: section, reporter.problems, lambda: reporter.now_s)

    async def scene() -> None:
        await caps.load_ordered()
        await caps.query_server()
        await caps.query_server()
        assert caps.ahead() == ()

    asyncio.run(scene())
    assert f'["e1",{END_S}]' in (reporter.ledger.remembered(ORDERED_EVENT) or "")

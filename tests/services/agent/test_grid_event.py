"""Grid events: which jobs are requeued, the ramp back, what an operator may order, and what was delivered."""

import asyncio
import json
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_site import a_running
from queue_site import a_job

from offpeak.errors import BadInput, CannotWrite
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import DecisionRecord, MeterReading
from offpeak.model.facility import PowerCap
from offpeak.model.flexibility import FlexibilityRules
from offpeak.plugin.scheduler.job import JobState
from offpeak.power.live.power_cap import LATE_S, PowerBudget
from offpeak.services.agent.demand_response import CapSection, OrderedCaps
from offpeak.services.agent.grid_event import (
    BEGIN,
    CAPS,
    END,
    EVENT,
    SETTLE_S,
    EventSection,
    GridEventLoop,
    RunningJob,
    choose_requeues,
    deliveries,
    ramp_s,
    running_jobs,
    target_w,
)
from offpeak.services.agent.loop import ProblemLog
from offpeak.services.agent.requests import ShedRequest, parse_shed_request
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings

pytestmark = pytest.mark.quick

JOBS = st.lists(
    st.builds(
        RunningJob,
        st.integers(0, 10**6).map(str),
        st.floats(0, 1e5),
        st.integers(1, 7200),
        st.booleans(),
    ),
    max_size=20,
    unique_by=lambda job: job.job_id,
)


@given(JOBS, st.floats(1, 1e6), st.floats(0, 7200))
def test_no_more_jobs_are_requeued_than_needed(jobs: list[RunningJob], missing_w: float, left_s: float) -> None:
    chosen = choose_requeues(jobs, missing_w, left_s)
    useful = [job for job in jobs if job.saved_w > 0 and job.checkpoint_s < left_s]
    asked = {job for job in jobs if job.is_signalled}
    assert set(chosen) <= {*useful, *asked}
    assert asked <= set(chosen), "a job that was asked stays chosen"
    brought_w = sum(job.saved_w for job in chosen)
    assert brought_w >= missing_w * (1 - 1e-9) or len(chosen) == len({*useful, *asked})
    if chosen and not chosen[-1].is_signalled:
        assert brought_w - chosen[-1].saved_w < missing_w, "without the last one it would not be enough"


def test_a_job_on_nodes_that_are_not_understood_keeps_no_other_from_the_ladder() -> None:
    jobs = [a_running(1, "n[1-2"), a_running(2, "n[3-4]"), a_running(3, "")]
    assert [job.job_id for job in running_jobs(jobs)] == ["2"]


def test_power_comes_back_by_the_ramp() -> None:
    assert ramp_s(20_000, 10_000) == 120
    assert ramp_s(20_000, None) == 0


def test_a_share_is_one_of_the_known_draw_of_all_nodes() -> None:
    assert target_w(0.25, None, ("n1", "n2"), {"n1": 300.0, "n2": 100.0}) == 300
    assert target_w(None, 5000, ("n1",), {}) == 5000
    with pytest.raises(BadInput, match=r"the present draw is not known: 2 nodes without a reading \(n\[2-3\]\)"):
        target_w(0.25, None, ("n1", "n2", "n3"), {"n1": 300.0})


@pytest.mark.parametrize(
    "fields",
    [
        {"for_s": 0, "share": 0.2},
        {"for_s": -60, "cap_w": 5000},
        {"for_s": 60, "cap_w": 5000, "from_unix_s": float("nan")},
        {"for_s": 10},
        {"for_s": 10, "share": "much"},
        {"for_s": 10, "share": 1.0},
        {"for_s": 10, "cap_w": -1},
        {"share": 0.3},
        {"for_s": True, "share": 0.3},
        {"for_s": 10**30, "cap_w": 5000},
        {"for_s": 60, "cap_w": 10**30},
        {"for_s": 60, "cap_w": 5000, "from_unix_s": 1e300},
    ],
)
def test_what_is_no_event_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="that is not an event"):
        parse_shed_request({"text": json.dumps(fields)}, "ann")


def test_an_event_and_its_end_are_understood() -> None:
    event = {"for_s": 60, "share": 0.3, "from_unix_s": 5.0, "reason": "frost"}
    assert parse_shed_request({"text": json.dumps(event)}, "ann") == ShedRequest("ann", 0.3, None, 5.0, 60, "frost")
    assert parse_shed_request({"text": "{}"}, "ann").for_s is None


class Ladder:
    """The loop in an event of 8000 s, with three jobs that bring 390 W each, and what the queue loop would do."""

    def __init__(self, folder: Path, comment: str = "offpeak:checkpoint=10min") -> None:
        self.now_s, self.event = 1000.0, PowerCap(1000, 9000, 300, "the grid asks", EVENT)
        running = {"comment": comment, "state": JobState.RUNNING, "start_s": 100, "limit_s": 10_000}
        jobs = [a_job(number, hosts=f"n{number}", **running) for number in (1, 2, 3)]
        self.checkpoints: Any = SimpleNamespace(events={}, signalled=frozenset(), go_on={})
        self.budget = PowerBudget(self.event, 400.0)
        caps: Any = SimpleNamespace(in_force=lambda: (self.event,))
        node_caps: Any = SimpleNamespace(records=SimpleNamespace(by_node={}), extend=lambda *_: None)
        node_class: Any = SimpleNamespace(running_w=lambda _: 400.0, asleep_w=10.0)
        observer: Any = SimpleNamespace(latest=SimpleNamespace(jobs=jobs))
        self.ledger = Ledger(LedgerSettings(url=f"sqlite:///{folder / 'ledger.sqlite'}"))
        # Its tables are made before those of the next test.
        self.ledger.ready()
        self.loop = GridEventLoop(
            section=lambda: EventSection(FlexibilityRules(UTC), None, lambda _: node_class, dict),
            caps=caps,
            budget=lambda: self.budget,
            node_caps=node_caps,
            checkpoints=self.checkpoints,
            observer=observer,
            ledger=self.ledger,
            problem_log=ProblemLog(),
            clock=lambda: self.now_s,
            decide_soon=lambda: None,
        )
        assert self.follow() == set(), "the last decision about nodes may not be in force"

    def follow(self, draw_w: float = 400.0, held_back_w: float = 0.0) -> set[str]:
        """Return the jobs to stop after a round in which nodes draw so much."""
        self.budget = PowerBudget(self.event, draw_w, held_back_w=held_back_w)
        asyncio.run(self.loop.round())
        self.now_s += SETTLE_S
        return set(self.checkpoints.events)

    def rungs(self) -> tuple[str, ...]:
        """Return what the report shows, and end."""
        assert self.ledger.settle()
        (delivery,) = deliveries(self.ledger.settings.url, self.now_s, 5)
        assert self.ledger.close() == 0
        return delivery.rungs


def test_a_job_that_writes_no_checkpoint_keeps_no_other_from_being_asked(tmp_path: Path) -> None:
    ladder = Ladder(tmp_path)
    assert [ladder.follow(), ladder.follow()] == [{"1"}, {"1"}]
    ladder.checkpoints.go_on = {"1": "no checkpoint within 10 min of the signal: it goes on", "7": "by price"}
    assert ladder.follow() == {"2"}
    ladder.checkpoints.go_on = {}
    assert ladder.follow() == {"2"}, "the first one is not asked again in this event"
    assert ladder.rungs()[1] == "goes on job 1: no checkpoint within 10 min of the signal: it goes on"


def test_jobs_that_were_not_asked_yet_are_spared_once_the_draw_is_below_the_cap(tmp_path: Path) -> None:
    ladder = Ladder(tmp_path)
    assert ladder.follow(1400.0) == {"1", "2", "3"}
    ladder.checkpoints.signalled = frozenset({"1"})
    assert ladder.follow(700.0) == {"1", "2"}, "less is missing than before"
    assert ladder.follow(290.0) == {"1"}
    assert ladder.follow(290.0) == {"1"}
    asked, spared = ladder.rungs()
    assert asked == "checkpoints of 3 jobs (1, 2, 3), to bring 1,170 W"
    assert spared == "spared 1 job (2): the draw is below the cap"


def test_no_job_is_stopped_for_what_idle_nodes_will_bring_as_long_as_the_event_allows(tmp_path: Path) -> None:
    ladder = Ladder(tmp_path)
    assert ladder.follow(600.0, held_back_w=320.0) == set()
    assert ladder.follow(900.0, held_back_w=320.0) == {"1"}, "they will not bring enough"
    ladder.now_s = 1000.0 + LATE_S
    assert ladder.follow(900.0, held_back_w=320.0) == {"1", "2"}


@pytest.mark.parametrize(
    ("comment", "stopped"),
    [
        ("offpeak:checkpoint=1h", set()),
        # From 02:30 on, the rest of the limit and the checkpoint take 162 min.
        ("offpeak:checkpoint=10min,deadline=1970-01-01T05:12", {"1"}),
        ("offpeak:checkpoint=10min,deadline=1970-01-01T05:11", set()),
    ],
)
def test_a_job_that_no_event_may_stop_is_not_counted_on(tmp_path: Path, comment: str, stopped: set[str]) -> None:
    ladder = Ladder(tmp_path, comment)
    assert ladder.follow() == stopped
    assert len(ladder.rungs()) == len(stopped)


def caps_of(ledger: Ledger) -> OrderedCaps:
    return OrderedCaps(lambda: CapSection(PlanSettings(), UTC, 1.0, ordered=ledger), ProblemLog(), lambda: 1500.0)


def test_an_ordered_event_is_that_of_the_next_agent_too(tmp_path: Path) -> None:
    """The agent of the other head node has another state folder, and the same ledger."""
    settings = LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    before, event = Ledger(settings), PowerCap(1000, 2000, 300, "", "admin")
    asyncio.run(caps_of(before).order(event))
    next_ledger = Ledger(settings)
    after = caps_of(next_ledger)
    asyncio.run(after.load_ordered())
    assert after.in_force() == (event,)
    asyncio.run(after.order(None))
    again = caps_of(before)
    asyncio.run(again.load_ordered())
    assert again.in_force() == ()
    before.close()
    next_ledger.close()


def test_an_ordered_event_ends_though_the_ledger_cannot_be_written(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    caps, event = caps_of(ledger), PowerCap(1000, 2000, 300, "", "admin")
    asyncio.run(caps.order(event))
    assert caps.in_force() == (event,)
    ledger.close()
    with pytest.raises(CannotWrite):
        asyncio.run(caps.order(None))
    assert caps.in_force() == ()
    with pytest.raises(CannotWrite):
        asyncio.run(caps.order(event))
    assert caps.in_force() == ()


def begin(at_s: float, until_s: float, *, from_s: float | None = None, draw_w: float = 400.0) -> DecisionRecord:
    begins_s = at_s if from_s is None else from_s
    inputs = (("cap_w", 300.0), ("from_s", begins_s), ("until_s", until_s), ("draw_w", draw_w))
    return DecisionRecord(at_s, EVENT, BEGIN, "the grid asks", inputs)


def test_the_delivery_is_what_meters_saw_in_each_quarter_minute(tmp_path: Path) -> None:
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    ledger.write_decisions(
        [
            begin(900.0, 1000.0),
            DecisionRecord(960.0, EVENT, END, "withdrawn"),
            begin(1200.0, 1320.0),
            DecisionRecord(1220.0, EVENT, CAPS, "on n1, to bring 100 W of 100 W"),
            begin(1250.0, 1300.0, from_s=1200.0, draw_w=310.0),
            begin(1260.0, 1320.0, from_s=1200.0, draw_w=305.0),
        ]
    )
    watts = [400.0, 400.0, 290.0, 290.0, 310.0, 290.0]
    ledger.write_readings(
        [
            MeterReading("n1", "dcmi", "total", 1200.0 + 15 * at, 1215.0 + 15 * at, each_w, node="n1")
            for at, each_w in enumerate(watts)
        ]
    )
    assert ledger.settle()
    last, first = deliveries(ledger.settings.url, 1290.0, 5)
    assert first.before_w == 400.0
    assert (first.cap.from_s, first.cap.until_s, first.mean_w, first.held) == (900, 960, None, None)
    assert (last.before_w, last.rungs) == (400.0, ("caps on n1, to bring 100 W of 100 W",))
    assert [round(each.power_w) for each in last.intervals] == [400, 400, 290, 290, 310, 290]
    assert (last.below_after_s, last.held) == (30, 0.75)
    assert last.mean_w == pytest.approx(330)
    ledger.write_decisions([begin(1300.0, 1e6, from_s=1215.0, draw_w=0.0)])
    assert ledger.settle()
    longest = deliveries(ledger.settings.url, 1e6, 1)[0]
    assert (longest.before_w, len(longest.intervals)) == (None, 480), "the draw before is not known; longer steps"
    assert ledger.close() == 0

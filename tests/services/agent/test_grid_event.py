"""Grid events: which jobs are requeued, the ramp back, what an operator may order, and what was delivered."""

import asyncio
import json
from dataclasses import replace
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
from offpeak.settings.ledger import LedgerSettings
from offpeak.settings.plan import PlanSettings
from plugin.scheduler.job import JobState
from power.live.power_cap import PowerBudget
from services.agent.demand_response import CapSection, OrderedCaps
from services.agent.grid_event import (
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
from services.agent.loop import ProblemLog
from services.agent.requests import ShedRequest, parse_shed_request

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
    assert set(chosen) <= set(useful)
    assert {job for job in useful if job.is_signalled} <= set(chosen), "a job that was asked stays chosen"
    brought_w = sum(job.saved_w for job in chosen)
    assert brought_w >= missing_w * (1 - 1e-9) or len(chosen) == len(useful)
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
    ],
)
def test_what_is_no_event_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="that is no event"):
        parse_shed_request({"text": json.dumps(fields)}, "ann")


def test_an_event_and_its_end_are_understood() -> None:
    event = {"for_s": 60, "share": 0.3, "from_unix_s": 5.0, "reason": "frost"}
    assert parse_shed_request({"text": json.dumps(event)}, "ann") == ShedRequest("ann", 0.3, None, 5.0, 60, "frost")
    assert parse_shed_request({"text": "{}"}, "ann").for_s is None


def test_a_job_that_writes_no_checkpoint_keeps_no_other_from_being_asked(tmp_path: Path) -> None:
    now_s, comment = [1000.0], "offpeak:checkpoint=10min"
    jobs = [
        a_job(number, comment=comment, state=JobState.RUNNING, start_s=900, hosts=f"n{number}") for number in (1, 2)
    ]
    event = PowerCap(1000, 9000, 300, "the grid asks", EVENT)
    checkpoints: Any = SimpleNamespace(events={}, go_on=frozenset())
    caps: Any = SimpleNamespace(in_force=lambda: (event,))
    node_caps: Any = SimpleNamespace(records=SimpleNamespace(by_node={}), extend=lambda *_: None)
    observer: Any = SimpleNamespace(latest=SimpleNamespace(jobs=jobs))
    ledger = Ledger(LedgerSettings(url=f"sqlite:///{tmp_path / 'ledger.sqlite'}"))
    loop = GridEventLoop(
        section=lambda: EventSection(FlexibilityRules(UTC), None, lambda _: 400.0, lambda _: 10.0, dict),
        caps=caps,
        budget=lambda: PowerBudget(event, 400.0),
        node_caps=node_caps,
        checkpoints=checkpoints,
        observer=observer,
        ledger=ledger,
        problem_log=ProblemLog(),
        clock=lambda: now_s[0],
        decide_soon=lambda: None,
    )

    def follow() -> set[str]:
        asyncio.run(loop.round())
        now_s[0] += SETTLE_S
        return set(checkpoints.events)

    assert [follow(), follow(), follow()] == [set(), {"1"}, {"1"}]
    checkpoints.go_on = frozenset({"1"})
    assert follow() == {"2"}
    checkpoints.go_on = frozenset()
    assert follow() == {"2"}, "the first one is not asked again in this event"
    assert ledger.close() == 0


def test_an_ordered_event_ends_though_the_disk_is_full(tmp_path: Path) -> None:
    section = CapSection(PlanSettings(), UTC, 1.0, ordered=tmp_path / "event.json")
    caps, event = OrderedCaps(lambda: section, ProblemLog(), lambda: 1500.0), PowerCap(1000, 2000, 300, "", "admin")
    asyncio.run(caps.order(event))
    assert caps.in_force() == (event,)
    section = replace(section, ordered=tmp_path / "no folder" / "event.json")
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
            begin(1250.0, 1320.0, from_s=1200.0, draw_w=310.0),
        ]
    )
    watts = [400.0, 400.0, 290.0, 290.0, 310.0, 290.0]
    ledger.write_readings(
        [
            MeterReading("n1", "dcmi", "total", 1200.0 + 15 * at, 1215.0 + 15 * at, each_w, node="n1")
            for at, each_w in enumerate(watts)
        ]
    )
    assert ledger.settle(60)
    last, first = deliveries(ledger.settings.url, 1290.0, 5)
    assert first.before_w == 400.0
    assert (first.cap.from_s, first.cap.until_s, first.mean_w, first.held) == (900, 960, None, None)
    assert (last.before_w, last.rungs) == (400.0, ("caps on n1, to bring 100 W of 100 W",))
    assert [round(each.power_w) for each in last.intervals] == [400, 400, 290, 290, 310, 290]
    assert (last.below_after_s, last.held) == (30, 0.75)
    assert last.mean_w == pytest.approx(330)
    ledger.write_decisions([begin(1300.0, 1e6, from_s=1200.0, draw_w=0.0)])
    assert ledger.settle(60)
    longest = deliveries(ledger.settings.url, 1e6, 1)[0]
    assert (longest.before_w, len(longest.intervals)) == (None, 480), "the draw before is not known; longer steps"
    assert ledger.close() == 0

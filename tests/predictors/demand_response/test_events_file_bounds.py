"""What bounds an event of the site's own file: a longest length and a least power, each told."""

import asyncio
from datetime import UTC
from pathlib import Path

from offpeak.predictors.demand_response import OrderedEvents, read_file_events
from offpeak.services.agent.demand_response import CapSection, OrderedCaps
from offpeak.services.agent.loop import ProblemLog
from offpeak.settings.plan import PlanSettings

FIVE_PM = 1_795_363_200
HOUR_S, DAY_S = 3600, 86_400
FOR_EVER = """[[event]]
begin = 2026-11-22T17:00:00+01:00
end = 9999-12-31T23:59:59-12:00
cap_w = 0
reason = "until I remove it"
"""


def read(
    file: Path, before: OrderedEvents, now_s: int, **settings: float
) -> tuple[OrderedEvents, list[tuple[int, int]]]:
    """Return what is read, and the end [s after the begin] and the power [W] of each cap."""
    ordered = read_file_events(PlanSettings(events=file, **settings), UTC, before, now_s)
    return ordered, [(cap.until_s - FIVE_PM, cap.cap_w) for event in ordered.events for cap in event.caps]


def test_an_event_for_ever_of_no_power_is_bounded_as_one_of_a_server(tmp_path: Path) -> None:
    file = tmp_path / "events.toml"
    file.write_text(FOR_EVER)
    bounded, caps = read(file, OrderedEvents(), FIVE_PM)
    assert caps == [(DAY_S, 100)]
    assert bounded.bounded == (
        f"{file}: 'until I remove it' ends 24 h after its begin, by plan.openadr_longest",
        f"{file}: 'until I remove it' is a cap of 100 W, by plan.openadr_least",
    )
    assert read(file, bounded, FIVE_PM + HOUR_S)[1] == caps, "no reading moves the end on"
    week, caps = read(file, bounded, FIVE_PM, openadr_longest_s=7 * DAY_S, openadr_least_w=0.0)
    assert (caps, len(week.bounded)) == ([(7 * DAY_S, 0)], 1)
    file.write_text("")
    assert read(file, bounded, FIVE_PM)[0] == OrderedEvents(read_s=FIVE_PM), "a removed event is gone at once"


def test_the_agent_tells_which_event_of_the_file_is_bounded(tmp_path: Path) -> None:
    file, problems = tmp_path / "events.toml", ProblemLog()
    file.write_text(FOR_EVER)
    caps = OrderedCaps(lambda: CapSection(PlanSettings(events=file), UTC, 1.0), problems, lambda: float(FIVE_PM))
    asyncio.run(caps.read_file())
    assert "by plan.openadr_longest" in str(problems.problems)
    file.write_text("")
    asyncio.run(caps.read_file())
    assert not problems.problems

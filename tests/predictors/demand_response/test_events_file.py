"""A site's own file of caps: what is read, and what is refused in one line."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from offpeak.model.facility import PowerCap
from offpeak.predictors.demand_response import OrderedEvents, caps_ahead, read_events, read_file_events
from offpeak.settings.plan import PlanSettings

pytestmark = pytest.mark.quick

ZONE = ZoneInfo("Europe/Berlin")
EVENT = """[[event]]
begin = 2026-11-22T17:00:00+01:00
end = 2026-11-22T20:00:00
cap_w = 40000
reason = "the grid asks"
"""
FIVE_PM = 1_795_363_200


def written(folder: Path, text: str) -> Path:
    file = folder / "events.toml"
    file.write_text(text)
    return file


def test_times_have_an_offset_or_are_on_the_sites_clock(tmp_path):
    file = written(tmp_path, EVENT)
    cap = PowerCap(FIVE_PM, FIVE_PM + 3 * 3600, 40_000, "the grid asks", str(file))
    assert read_events(file, ZONE) == ((cap,), ())
    assert read_events(written(tmp_path, ""), ZONE) == ((), ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cap_w = 40000", 'cap_w = "40kW"', "event 1: cap_w: '40kW' is not a number"),
        ("cap_w = 40000", "cap_w = -1", "event 1: cap_w: -1 is out of range"),
        ("cap_w = 40000\n", "", "event 1: cap_w is missing; add cap_w = 40000"),
        ("reason =", "because =", "because: is not a key of an event"),
        ("2026-11-22T20:00:00", "2026-11-22T10:00:00", "ends before it begins"),
        ("2026-11-22T20:00:00", '"tonight"', "end: 'tonight': input should be a valid datetime"),
        ("[[event]]", "[[events]]", "events: is not a key of a file of events; did you mean event?"),
        ("[[event]]", "[[event", "Expected"),
    ],
)
def test_invalid_events_file_is_refused(tmp_path, old, new, message):
    settings = PlanSettings(events=written(tmp_path, EVENT.replace(old, new)))
    refused = read_file_events(settings, ZONE, OrderedEvents(), FIVE_PM)
    assert message in refused.problem
    assert "\n" not in refused.problem
    assert refused.events == ()


def test_an_event_that_is_no_table_hides_no_other(tmp_path):
    caps, (problem,) = read_events(
        written(tmp_path, 'event = ["now", { ' + ", ".join(EVENT.split("\n")[1:5]) + " }]"), ZONE
    )
    assert [cap.cap_w for cap in caps] == [40_000]
    assert "event 1: is not a table" in str(problem)


def test_a_file_that_is_damaged_leaves_what_it_reported_before(tmp_path):
    settings = PlanSettings(events=written(tmp_path, EVENT))
    known = read_file_events(settings, ZONE, OrderedEvents(), FIVE_PM)
    assert len(caps_ahead(known.events, FIVE_PM)) == 1
    written(tmp_path, "[[event]]\n")
    damaged = read_file_events(settings, ZONE, known, FIVE_PM)
    assert damaged.events == known.events
    written(tmp_path, EVENT.replace("cap_w = 40000", 'cap_w = "40kW"') + EVENT.replace("40000", "30000"))
    (first,) = read_file_events(settings, ZONE, OrderedEvents(), FIVE_PM).events
    assert first.caps[0].cap_w == 30_000
    assert read_file_events(settings, ZONE, known, FIVE_PM).events == (first, *known.events)
    assert "event 1" in damaged.problem
    assert caps_ahead(damaged.events, FIVE_PM + 4 * 3600) == ()

"""Coming times as admins write them."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from offpeak.errors import BadInput
from offpeak.model.time_range import parse_coming_time

pytestmark = pytest.mark.quick

NOW = datetime(2026, 10, 24, 20, 0, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("8h", "2026-10-25T03:00+01:00"),
        ("2d", "2026-10-26T19:00+01:00"),
        ("21:30", "2026-10-24T21:30+02:00"),
        ("8:00", "2026-10-25T08:00+01:00"),
        ("2026-12-01T08:00", "2026-12-01T08:00+01:00"),
        ("2026-12-01T08:00+00:00", "2026-12-01T08:00+00:00"),
    ],
)
def test_as_it_is_written(text: str, end: str) -> None:
    assert parse_coming_time("--until", text, NOW) == datetime.fromisoformat(end).timestamp()


@pytest.mark.parametrize("text", ["", "later", "25:00", "2026-13-01", "2026-10-24T19:59", "0s", "8"])
def test_invalid_or_past_times_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_coming_time("--until", text, NOW)

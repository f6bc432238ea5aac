"""Trace seconds on axes and in tables."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.ui.report.subject import Calendar

BERLIN = ZoneInfo("Europe/Berlin")
# Trace second 0 is 2023-03-25 12:00 in Berlin; in the night the clock goes from 2:00 to 3:00.
BEFORE_THE_CHANGE = Calendar(1_679_742_000, BERLIN, 3600)


def test_tables_show_the_local_clock_and_axes_the_clock_of_the_begin() -> None:
    assert BEFORE_THE_CHANGE.minute_text(0) == "2023-03-25 12:00"
    assert BEFORE_THE_CHANGE.minute_text(24 * 3600) == "2023-03-26 13:00"
    assert BEFORE_THE_CHANGE.day_text(12 * 3600) == "2023-03-26"
    first_ms, later_ms = BEFORE_THE_CHANGE.axis_ms(np.array([0, 24 * 3600]))
    assert datetime.fromtimestamp(first_ms / 1000, UTC).isoformat() == "2023-03-25T12:00:00+00:00"
    assert later_ms - first_ms == 86_400_000


@pytest.mark.parametrize(
    ("ahead_s", "text"), [(0, "UTC"), (3600, "UTC+01:00"), (-9000, "UTC-02:30"), (45_900, "UTC+12:45")]
)
def test_the_clock_of_the_axes_is_named(ahead_s: int, text: str) -> None:
    assert Calendar(0, BERLIN, ahead_s).clock_text == text


def test_a_range_of_no_time_is_a_minute() -> None:
    begin, until = BEFORE_THE_CHANGE.axis_range(5, 5)
    assert until - begin == 60_000

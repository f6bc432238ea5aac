"""Durations and times as people read them."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from offpeak.display import duration_text, iso_text, minute_text, money_text, range_text, second_text, utc_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3569, "59 min"),
        (3570, "1 h"),
        (7509, "2:05 h"),
        (86_400, "24 h"),
        (172_769, "47:59 h"),
        (172_770, "2 days"),
        (285_120, "3 d 7 h"),
        (604_800, "7 days"),
        (10**8, "1,157 days"),
    ],
)
def test_a_duration_has_one_form_everywhere(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_times_are_local_or_utc() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert minute_text(1_600_000_000, UTC) == "2020-09-13 12:26"
    assert second_text(1_600_000_000, berlin) == "2020-09-13 14:26:40"
    assert iso_text(1_600_000_000.4, berlin) == "2020-09-13T14:26:40+02:00"
    assert utc_text(1_600_000_000.4) == "2020-09-13T12:26:40Z"


@pytest.mark.parametrize(("high", "text"), [(0.93, "0.92 to 0.93"), (0.924, ""), (None, "")])
def test_a_range_has_two_ends(high: float | None, text: str) -> None:
    assert range_text(0.92, high) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(0.005, "0.01 EUR"), (0.0018, "0.0018 EUR"), (-0.0018, "-0.0018 EUR"), (1e-5, "0.00 EUR")]
)
def test_a_small_amount_does_not_look_like_nothing(amount: float, text: str) -> None:
    assert money_text(amount, "EUR") == text

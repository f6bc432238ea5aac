"""Whether a PDU has started anew, by what it says of its uptime."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.power.meters.snmp.pdu import Uptime, has_restarted, next_uptime

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("ticks", "after_s", "expected"),
    [
        (100_000 + 1_000, 10.0, False),
        (100_000 + 990, 12.5, False),
        (5, 10.0, True),
        (99_999, 0.0, True),
        (100_000 + 2_000, 3_600.0, True),
        (100_000, 3_600.0, True),
        (100_000, 0.5, False),
        (100_000 + 500, -60.0, False),
    ],
    ids=[
        "goes on",
        "late answer",
        "just started",
        "less",
        "up again, unseen",
        "the same",
        "at once",
        "our clock",
    ],
)
def test_a_restart_is_seen(ticks: int, after_s: float, expected: bool) -> None:
    before = Uptime(100_000, 1e9)
    assert has_restarted(before, next_uptime(before, ticks, 1e9 + after_s)) is expected


def test_the_first_look_is_no_restart() -> None:
    assert not has_restarted(None, next_uptime(None, 0, 0.0))


def test_an_uptime_that_never_moves_is_taken_for_a_restart_once() -> None:
    seen = [next_uptime(None, 1000, 0.0)]
    for at_s in (10.0, 20.0, 30.0, 40.0):
        seen.append(next_uptime(seen[-1], 1000, at_s))
    seen += [next_uptime(seen[-1], 1000 + 500, 50.0)]
    assert [has_restarted(before, now) for before, now in pairwise(seen)] == [True, False, False, False, True]


@given(st.floats(0, 4e7), st.floats(0, 1e7), st.floats(0.95, 1.05), st.floats(-2.5, 2.5))
def test_a_clock_that_is_a_bit_wrong_is_no_restart(up_s: float, passed_s: float, rate: float, late_s: float) -> None:
    now = Uptime((up_s + rate * max(0.0, passed_s - late_s)) * 100, passed_s)
    assert not has_restarted(Uptime(up_s * 100, 0.0), now)

"""The rows of readings in the ledger: each second once, with a value or as a gap with its reason."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpeak.errors import NoAnswer
from offpeak.ledger.rows import MeterReading
from offpeak.power.meters.energy import Energy, add_reading
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.metering import LatestReadings, make_meter_rows

pytestmark = pytest.mark.quick

HOLD_S = 30.0


def watts(at_s: float, power_w: float | None, way: str = "snmp") -> MeterResult:
    why = "" if power_w is not None else "noSuchInstance"
    return MeterResult("pdu1", way, (Reading("pdu1", way, "outlet 1", power_w, at_s, node="n1", why=why),))


def silent(problem: str = "pdu1: silent for 5 s") -> MeterResult:
    return MeterResult("pdu1", "snmp", error=NoAnswer(problem))


def after(*rounds: tuple[float, MeterResult]) -> list[MeterReading]:
    last: LatestReadings = {}
    rows = []
    for now_s, taken in rounds:
        last, more = make_meter_rows(last, [taken], now_unix_s=now_s, longest_hold_s=HOLD_S)
        rows += more
    return rows


def row_values(rows: list[MeterReading]) -> list[tuple[float, float, float | None, str]]:
    return [(row.from_unix_s, row.until_unix_s, row.power_w, row.why) for row in rows]


def test_a_value_holds_until_the_next_one() -> None:
    rows = after((100, watts(100, 200)), (110, watts(110, 300)), (120, watts(120, 0)))
    assert rows == [
        MeterReading("pdu1", "snmp", "outlet 1", 100, 110, 200, node="n1"),
        MeterReading("pdu1", "snmp", "outlet 1", 110, 120, 300, node="n1"),
    ]


def test_a_gap_is_recorded_and_never_filled() -> None:
    rows = after((0, watts(0, 200)), (100, watts(100, 300)))
    assert row_values(rows) == [(0, 30, 200, ""), (30, 100, None, "not read for 100 s")]


def test_a_silent_meter_says_why_nothing_is_known() -> None:
    rows = after((0, watts(0, 200)), (10, silent()), (30, silent()), (70, watts(70, 100)), (80, watts(80, 100)))
    assert row_values(rows) == [
        (0, 10, 200, ""),
        (10, 30, None, "pdu1: silent for 5 s"),
        (30, 70, None, "pdu1: silent for 5 s"),
        (70, 80, 100, ""),
    ]
    assert after((10, silent())) == []


def test_no_value_is_a_gap_with_the_meters_own_reason() -> None:
    rows = after((0, watts(0, None)), (10, watts(10, 50)))
    assert row_values(rows) == [(0, 10, None, "noSuchInstance")]


def test_watts_of_a_counter_are_of_the_time_before() -> None:
    rows = after((0, watts(0, None, "rapl")), (100, watts(100, 80, "rapl")), (110, watts(110, None, "rapl")))
    assert row_values(rows) == [(0, 100, 80, ""), (100, 110, None, "noSuchInstance")]


def test_a_clock_that_goes_back_begins_anew_and_the_same_reading_is_nothing_new() -> None:
    rows = after((1000, watts(1000, 200)), (1000, watts(1000, 200)), (400, watts(400, 300)), (410, watts(410, 300)))
    assert row_values(rows) == [(400, 410, 300, "")]


@given(st.lists(st.tuples(st.floats(0.5, 100), st.one_of(st.none(), st.floats(0, 1e4))), min_size=2, max_size=30))
def test_rows_cover_all_of_the_time_and_add_up_to_the_integral(steps: list[tuple[float, float | None]]) -> None:
    at_s, rounds, energy = 0.0, [], Energy()
    for step_s, power_w in steps:
        at_s += step_s
        taken = watts(at_s, power_w)
        rounds.append((at_s, taken))
        energy = add_reading(energy, taken.readings[0], longest_hold_s=HOLD_S)
    rows = after(*rounds)
    assert all(before.until_unix_s == row.from_unix_s for before, row in pairwise(rows))
    assert rows[-1].until_unix_s - rows[0].from_unix_s == pytest.approx(energy.covered_s + energy.gap_s)
    known_j = sum(row.power_w * (row.until_unix_s - row.from_unix_s) for row in rows if row.power_w is not None)
    assert known_j == pytest.approx(energy.energy_j)

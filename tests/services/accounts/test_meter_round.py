"""Rounds over meters: the sensors of the kernel are read, silent ones less often, and problems are logged once."""

import asyncio
import time
from pathlib import Path

import pytest
from node_tree import write_tree

from offpeak.errors import AccessRefused, NoAnswer
from offpeak.power.lifecycle.node_record import Instant
from offpeak.power.meters.kernel import HwmonMeter, RaplMeter
from offpeak.power.meters.port import MeterResult, Reading
from offpeak.services.accounts.metering import (
    LONGEST_PAUSE_S,
    Metering,
    MeterRound,
    Pace,
    Silence,
    after_round,
    next_silence,
    read_all_meters,
)

pytestmark = pytest.mark.quick

PACE = Pace(period_s=10, timeout_s=5)
SENSOR = {"class/hwmon/hwmon1/name": "power_meter\n", "class/hwmon/hwmon1/power1_average": "212000000\n"}


def silent(problem: str) -> MeterResult:
    return MeterResult("bmc1", "dcmi", error=NoAnswer(problem))


def drawing(at_s: float, power_w: float, way: str = "dcmi") -> MeterResult:
    return MeterResult("bmc1", way, (Reading("bmc1", way, "total", power_w, at_s, node="n1"),))


def at(seconds: float) -> Instant:
    return Instant(seconds, 1_000_000 + seconds)


def test_the_kernels_sensors_are_read_round_after_round(tmp_path: Path) -> None:
    write_tree(tmp_path, SENSOR)
    meters = (HwmonMeter("n1", sysfs=tmp_path), RaplMeter("n1", sysfs=tmp_path))

    async def rounds() -> tuple[MeterRound, MeterRound]:
        first = await read_all_meters(meters, Metering(), pace=PACE, clock=clock)
        return first, await read_all_meters(meters, first.after, pace=PACE, clock=clock)

    first, second = asyncio.run(rounds())
    assert first.rows == ()
    (row,) = second.rows
    assert (row.meter, row.way, row.power_w, row.node) == ("n1", "hwmon", 212.0, "n1")
    assert [line.partition(":")[0] for line in first.lines] == ["n1 (rapl)"]
    assert second.lines == ()


def clock() -> Instant:
    return Instant(time.monotonic(), time.time())


def test_a_higher_draw_that_lasts_leaves_no_gap_while_it_was_doubtful() -> None:
    after, rows = Metering(), []
    for second in range(0, 1800, 60):
        power_w = 20.0 if second < 300 else 400.0
        made = after_round(after, [drawing(at(second).unix_s, power_w)], pace=Pace(60, 5), now=at(second))
        after, rows = made.after, [*rows, *made.rows]
    booked = sorted((row.from_unix_s, row.until_unix_s, row.power_w) for row in rows if row.power_w is not None)
    assert booked == [
        (at(second).unix_s, at(second + 60).unix_s, 20.0 if second < 300 else 400.0) for second in range(0, 1740, 60)
    ]


def test_without_meters_a_round_is_nothing() -> None:
    nothing = asyncio.run(read_all_meters((), Metering(), pace=PACE, clock=clock))
    assert (nothing.rows, nothing.lines) == ((), ())


def test_a_silent_meter_is_read_ever_less_often(tmp_path: Path) -> None:
    meter = HwmonMeter("n1", sysfs=tmp_path)
    after = Metering()
    read_at_s = []
    for second in range(0, 3000, 10):
        now = at(second)
        before = after.silent.get(("n1", "hwmon"))
        after = asyncio.run(read_all_meters((meter,), after, pace=PACE, clock=lambda now=now: now)).after  # type: ignore[misc]
        read_at_s += [second] if after.silent[("n1", "hwmon")] != before else []
    assert read_at_s == [0, 20, 60, 140, 300, 620, 1220, 1820, 2420]


def test_the_pause_has_a_bound_however_long_it_lasts() -> None:
    silence = Silence(10_000, 0.0)
    assert next_silence(silence, now_s=5.0, period_s=10.0).again_s == 5.0 + LONGEST_PAUSE_S
    assert next_silence(None, now_s=5.0, period_s=900.0).again_s == 5.0 + 900.0


def test_a_problem_is_logged_when_it_begins_changes_and_ends() -> None:
    lines: list[str] = []
    after = Metering()
    refused = MeterResult("bmc1", "dcmi", error=AccessRefused("bmc1: refused the password"))
    for second, taken in enumerate((silent("silent"), silent("silent"), refused, drawing(3.0, 200), drawing(4.0, 200))):
        done = after_round(after, [taken], pace=PACE, now=at(second))
        after, lines = done.after, [*lines, *done.lines]
    assert lines == [
        "bmc1 (dcmi): silent",
        "bmc1 (dcmi): bmc1: refused the password",
        "bmc1 (dcmi): well again after 1 times in 1 s: bmc1: refused the password",
    ]
    assert after.silent == {}


def test_meters_that_contradict_each_other_are_named_once_and_when_they_agree_again() -> None:
    lines: list[str] = []
    after = Metering()
    for second in range(0, 3000, 10):
        inside_w = 300.0 if second < 1500 else 180.0
        taken = [drawing(second, 200.0, "snmp"), drawing(second, inside_w)]
        done = after_round(after, taken, pace=PACE, now=at(second))
        after, lines = done.after, [*lines, *done.lines]
    assert lines == [
        "n1, pdu and bmc: pdu shows 200 W, bmc 300 W: less outside than inside; check which node is on which outlet",
        "n1, pdu and bmc: agree again",
    ]

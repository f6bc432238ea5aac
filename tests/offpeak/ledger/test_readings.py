"""Readings and their means: all sums of energy agree, also for late, repeated or early readings."""

import secrets
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_sums import Sums, rows_of, sums

from benchmarks.local_slurm.postgres import PostgresServer
from benchmarks.local_slurm.processes import wait_until
from offpeak.ledger import prune
from offpeak.ledger.backlog import (
    QUARTER_S,
    WRITES,
    MinuteRow,
    MinuteSums,
    RowKind,
    SeriesNumbers,
    bucket_means,
    cut_reading,
)
from offpeak.ledger.database import list_partitions, open_ledger, reading_engine, writing_engine
from offpeak.ledger.energy_use import EnergyUse
from offpeak.ledger.ledger import Ledger
from offpeak.ledger.node_energy import spans_energy
from offpeak.ledger.rows import MeterReading
from offpeak.ledger.tables import minutes, quarters, readings
from offpeak.model.constants import MINUTE_S
from offpeak.model.time_range import TimeRange

power_w = st.one_of(st.none(), st.floats(0, 5000, allow_subnormal=False))


@st.composite
def metered(draw: st.DrawFn) -> MeterReading:
    """A reading of one of three parts, somewhere within an hour and a half, of up to some minutes."""
    from_unix_s = draw(st.floats(0, 5400))
    length_s = draw(st.sampled_from([0.0, 0.25, 10.0, 60.0, 61.5, 1000.0]))
    part = draw(st.sampled_from(["total", "outlet 1", "outlet 2"]))
    counted_j = draw(st.one_of(st.none(), st.floats(0, 1e6, allow_subnormal=False)))
    why = draw(st.sampled_from(["", "doubtful"]))
    return MeterReading("pdu1", "snmp", part, from_unix_s, from_unix_s + length_s, draw(power_w), counted_j, why=why)


@given(metered())
def test_the_pieces_of_a_reading_are_the_reading(reading: MeterReading) -> None:
    cut = list(cut_reading(reading, 1))
    assert cut[-1].until_unix_s == reading.until_unix_s
    assert {piece.why for piece in cut} == {reading.why or None}
    assert all(piece.start_of(MINUTE_S) + MINUTE_S >= piece.until_unix_s for piece in cut)
    assert all(one.until_unix_s == other.from_unix_s for one, other in pairwise(cut))
    length_s = reading.until_unix_s - reading.from_unix_s
    if reading.power_w is None or length_s <= 0:
        assert [piece.energy_j for piece in cut] == [None]
    else:
        energy_j = reading.power_w * length_s if reading.energy_j is None else reading.energy_j
        assert sum(piece.energy_j or 0.0 for piece in cut) == pytest.approx(energy_j)


@given(st.lists(metered(), max_size=20))
def test_quarters_are_the_sums_of_their_minutes(all_readings: list[MeterReading]) -> None:
    cut = [piece for reading in all_readings for piece in cut_reading(reading, 1)]
    fine, coarse = bucket_means(cut, MINUTE_S), bucket_means(cut, QUARTER_S)
    for (start, series), mean in coarse.items():
        inside = [each for (at, of), each in fine.items() if of == series and start <= at < start + QUARTER_S]
        assert mean.energy_j == pytest.approx(sum(each.energy_j for each in inside))
        assert mean.covered_s == pytest.approx(sum(each.covered_s for each in inside))
        assert mean.without_value == sum(each.without_value for each in inside)
        assert mean.min_w == min((each.min_w for each in inside if each.min_w is not None), default=None)
        assert mean.max_w == max((each.max_w for each in inside if each.max_w is not None), default=None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(metered(), max_size=12), min_size=1, max_size=4))
def test_all_tables_say_the_same_energy(
    tmp_path: Path, opened: Callable[..., Ledger], sweeps: list[list[MeterReading]]
) -> None:
    ledger = opened(f"sqlite:///{tmp_path / secrets.token_hex(6)}")
    ledger.ready()
    for sweep in sweeps:
        ledger.write_readings(sweep)
        assert ledger.settle()
    # The last one that the strategy drew may come again: it is the same reading.
    ledger.write_readings(sweeps[-1])
    assert ledger.settle()
    for length_s in (MINUTE_S, QUARTER_S):
        assert_same(sums(ledger, readings, length_s), sums(ledger, minutes, length_s))
    assert_same(sums(ledger, minutes, QUARTER_S), sums(ledger, quarters, QUARTER_S))
    ledger.close()


def assert_same(one: Sums, other: Sums) -> None:
    assert {key: pytest.approx(value) for key, value in one.items()} == other


def every_10_s(from_unix_s: int, until_unix_s: int, nodes: int = 3) -> list[MeterReading]:
    """Readings at odd seconds, 100 W of the first node, 101 W of the second and so on."""
    return [
        MeterReading("pdu1", "snmp", f"outlet {node}", at_unix_s - 10.0, at_unix_s, 100.0 + node, node=f"n{node}")
        for at_unix_s in range(from_unix_s + 13, until_unix_s, 10)
        for node in range(nodes)
    ]


def test_minutes_and_quarters_are_kept_when_readings_are_pruned(ledger: Ledger) -> None:
    day_s = 86_400
    ledger.write_readings(every_10_s(0, 1200))
    ledger.write_readings(every_10_s(7 * day_s, 7 * day_s + 300))
    assert ledger.settle()
    coarse, fine = sums(ledger, quarters, QUARTER_S), sums(ledger, minutes, MINUTE_S)
    # With the piece that ends with the last of their minutes.
    assert (
        ledger.prune(7 * day_s + 600) == sum(1 for reading in every_10_s(0, 600) for _ in cut_reading(reading, 1)) + 3
    )
    assert sums(ledger, minutes, MINUTE_S) == fine
    left = [float(str(row[0])) for row in rows_of(ledger, readings)]
    assert min(left) == 603.0
    # The minutes of a quarter-hour stay until all of them go, in PostgreSQL those of a month.
    assert ledger.prune(97 * day_s + 400) > 0
    if ledger.settings.url.startswith("sqlite"):
        assert sums(ledger, minutes, MINUTE_S).keys() == {key for key in fine if key[0] >= 7 * day_s}
    assert sums(ledger, quarters, QUARTER_S) == coarse
    assert ledger.prune(97 * day_s + 400) == 0


def test_pruning_goes_in_slices_of_whole_minutes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "SLICE_ROWS", 10)
    ledger.write_readings(every_10_s(0, 1200))
    assert ledger.settle()
    seen: list[int] = []
    monkeypatch.setattr(time, "sleep", lambda _: seen.append(len(rows_of(ledger, readings))))
    deleted = ledger.prune(7 * 86_400 + 300)
    assert len(seen) == 5
    assert deleted + seen[-1] == sum(1 for reading in every_10_s(0, 1200) for _ in cut_reading(reading, 1))
    assert min(float(str(row[0])) for row in rows_of(ledger, readings)) == 303.0


def test_a_late_reading_is_added_to_its_minute_even_after_pruning(ledger: Ledger) -> None:
    ledger.write_readings([MeterReading("bmc1", "dcmi", "total", 0.0, 30.0, 100.0)])
    assert ledger.settle()
    ledger.prune(8 * 86_400)
    ledger.write_readings([MeterReading("bmc1", "dcmi", "total", 30.0, 50.0, 200.0), *no_value(55.0)])
    assert ledger.settle()
    assert rows_of(ledger, quarters) == [(0, 1, 50.0, 7000.0, 100.0, 200.0, 1)]


def no_value(at_unix_s: float) -> list[MeterReading]:
    return [MeterReading("bmc1", "dcmi", "total", at_unix_s, at_unix_s, None, why="no answer within 5 s")]


def test_missing_reading_is_not_zero(ledger: Ledger) -> None:
    ledger.write_readings(no_value(10.0))
    ledger.write_readings([MeterReading("bmc1", "dcmi", "total", 20.0, 30.0, 50.0)])
    assert ledger.settle()
    assert rows_of(ledger, readings) == [
        (10.0, 1, 10.0, None, None, "no answer within 5 s"),
        (30.0, 1, 20.0, 50.0, 500.0, None),
    ]
    assert rows_of(ledger, minutes) == [(0, 1, 10.0, 500.0, 50.0, 50.0, 1)]


def test_a_clock_stepped_back_counts_every_reading_once(ledger: Ledger) -> None:
    hour = every_10_s(3600, 7200, nodes=1)
    ledger.write_readings(hour)
    ledger.write_readings(hour[180:])
    ledger.write_readings(every_10_s(3605, 3700, nodes=1))
    assert ledger.settle()
    measured_s = 10.0 * (len(hour) + len(every_10_s(3605, 3700, nodes=1)))
    assert sum(energy_j for energy_j, _ in sums(ledger, quarters, QUARTER_S).values()) == pytest.approx(
        100.0 * measured_s
    )
    assert_same(sums(ledger, readings, QUARTER_S), sums(ledger, quarters, QUARTER_S))


@given(st.lists(st.lists(metered(), max_size=12), max_size=6))
def test_minutes_in_memory_integrate_to_what_the_readings_integrate_to(sweeps: list[list[MeterReading]]) -> None:
    gathered, rows = MinuteSums(), list[MinuteRow]()
    for sweep in sweeps:
        rows += [*gathered.add(sweep), *(gathered.take() if len(sweep) % 3 == 0 else ())]
    rows += gathered.take()
    numbers = {part: number for number, part in enumerate(("total", "outlet 1", "outlet 2"))}
    cut = [piece for sweep in sweeps for each in sweep for piece in cut_reading(each, numbers[each.part])]
    expected = bucket_means(cut, MINUTE_S)
    assert {(row.at_unix_s, numbers[row.name[2]]) for row in rows} == expected.keys()
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    for (at, series), mean in expected.items():
        found = [row.sums for row in rows if (row.at_unix_s, numbers[row.name[2]]) == (at, series)]
        assert sum(each.energy_j for each in found) == pytest.approx(mean.energy_j)
        assert sum(each.covered_s for each in found) == pytest.approx(mean.covered_s)
        assert sum(each.without_value for each in found) == mean.without_value
        assert max((each.max_w for each in found if each.max_w is not None), default=None) == mean.max_w


def test_a_ledger_without_readings_has_the_same_minutes_and_quarters(
    ledger: Ledger, tmp_path: Path, opened: Callable[..., Ledger]
) -> None:
    other = opened(f"sqlite:///{tmp_path / 'minutes_only'}", keep_readings_s=0)
    # A clock that was set back, a gap, and readings that come late.
    late = MeterReading("pdu1", "snmp", "outlet 0", 130.0, 170.0, 70.0, node="n0")
    rounds = [*([each] for each in every_10_s(3600, 7300)), no_value(7310.0), every_10_s(3605, 3650), [late]]
    for each in (ledger, other):
        for readings_of_round in rounds:
            each.write_readings(readings_of_round)
        assert each.close() == 0
    assert rows_of(other, readings) == []
    for table in (minutes, quarters):
        # Without the numbers of the series, which depend on what is written at once.
        one, two = ({(row[0], *row[4:]): row[2:4] for row in rows_of(each, table)} for each in (ledger, other))
        assert one.keys() == two.keys()
        assert len(one) > 10
        for key, mean in one.items():
            assert mean == pytest.approx(two[key])


def test_minutes_wait_until_they_are_over_and_are_written_at_the_end(url: str, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, keep_readings_s=0)
    ledger.ready()
    for reading in every_10_s(0, 175, nodes=1):
        ledger.write_readings([reading])
        ledger.write_readings([])
    # Three minutes: the one that runs and the one before it may still get readings.
    wait_until(lambda: bool(rows_of(ledger, minutes)), what="the minute that is over")
    assert [row[0] for row in rows_of(ledger, minutes)] == [0]
    assert ledger.close() == 0
    assert [(row[0], row[2]) for row in rows_of(ledger, minutes)] == [(0, 57.0), (60, 60.0), (120, 53.0)]


def test_minutes_whose_commit_was_not_confirmed_are_added_once(ledger: Ledger) -> None:
    gathered = MinuteSums()
    first = [*gathered.add(every_10_s(0, 300)), *gathered.take()]
    second = [*gathered.add(every_10_s(280, 400)), *gathered.take()]
    engine, known = writing_engine(ledger.settings.url), SeriesNumbers()
    # The answer to the first commit was lost: the writer puts its rows back, before the next ones.
    for rows in (first, [*first, *second[:2]], second):
        with engine.begin() as connection:
            WRITES[RowKind.READINGS](connection, rows, known)
    engine.dispose()
    measured_j = sum((reading.power_w or 0.0) * 10.0 for reading in every_10_s(0, 300) + every_10_s(280, 400))
    for table in (minutes, quarters):
        assert sum(energy_j for energy_j, _ in sums(ledger, table, QUARTER_S).values()) == pytest.approx(measured_j)


def test_the_minutes_of_an_inner_meter_are_written_where_the_outer_one_has_a_gap(
    url: str, opened: Callable[..., Ledger], tmp_path: Path
) -> None:
    def sweep(at_s: float) -> list[MeterReading]:
        outlets = [
            MeterReading("pdu1", "snmp", part, at_s, at_s + 10, 100.0, node="n1")
            for part in ("outlet 1", "outlet 2")
            # One of two outlets is silent in the fifth minute, without a row that says so.
            if part == "outlet 1" or at_s // 60 != 4
        ]
        return [*outlets, MeterReading("bmc1", "dcmi", "total", at_s, at_s + 10, 180.0, node="n1")]

    ledger = opened(url, keep_readings_s=0)
    exact = opened(f"sqlite:///{tmp_path / 'exact'}")
    ledger.ready()
    for at_s in range(0, 900, 10):
        ledger.write_readings(sweep(at_s))
        exact.write_readings(sweep(at_s))
    assert ledger.close() == exact.close() == 0
    energies_j = sums(ledger, minutes, MINUTE_S)
    assert [at_s for at_s, series in energies_j if energies_j[at_s, series][0] == 180.0 * 60] == [240]
    assert sums(ledger, quarters, QUARTER_S) == sums(exact, quarters, QUARTER_S)
    whole, edge = TimeRange(300.0, 840.0), TimeRange(0.0, 900.0)
    for span in (whole, edge):
        ours, theirs = (node_energy(each.settings.url, span) for each in (ledger, exact))
        assert ours.energy_j == pytest.approx(theirs.energy_j)
        assert ours.covered == pytest.approx(theirs.covered)


def node_energy(url: str, span: TimeRange) -> EnergyUse:
    """Return what the accounts say of n1."""
    with open_ledger(url) as connection:
        return spans_energy(connection, [span], [["n1"]])[0]["n1"]


def test_partitions_are_dropped_when_all_their_rows_are_old(
    postgres: PostgresServer, opened: Callable[..., Ledger]
) -> None:
    url = postgres.create(f"ledger_{secrets.token_hex(6)}")
    ledger, day_s = opened(url), 86_400
    for day in (0, 30, 31, 59, 365):
        ledger.write_readings(every_10_s(day * day_s, day * day_s + 120))
    assert ledger.settle()
    assert partitions(url) == ["minutes_1970_01", "minutes_1970_02", "minutes_1970_03", "minutes_1971_01"]
    # The minutes of the first 31 days stay for 90 days after the last of them.
    ledger.prune((31 + 90) * day_s - 1)
    assert partitions(url)[0] == "minutes_1970_01"
    ledger.prune((31 + 90) * day_s)
    assert partitions(url) == ["minutes_1970_02", "minutes_1970_03", "minutes_1971_01"]
    assert min(at for at, _ in sums(ledger, minutes, MINUTE_S)) == 31 * day_s
    assert min(at for at, _ in sums(ledger, quarters, QUARTER_S)) == 0
    # A reading that comes later than that gets a partition of its own, and goes with it.
    ledger.write_readings(every_10_s(0, 60))
    assert ledger.settle()
    assert partitions(url)[0] == "minutes_1970_01"
    ledger.prune((31 + 90) * day_s)
    assert partitions(url)[0] == "minutes_1970_02"
    assert ledger.problem() is None


def partitions(url: str) -> list[str]:
    """Return the names of the partitions of the minutes."""
    engine = reading_engine(url)
    with engine.connect() as connection:
        found = list_partitions(connection, "minutes")
    engine.dispose()
    return found

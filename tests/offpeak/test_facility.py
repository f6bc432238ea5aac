"""The facility: PUE by power and temperature, and the tables that come with offpeak."""

import numpy as np
import pytest
from study_tables import stored

from offpeak.errors import BadInput
from offpeak.model.facility import (
    Facility,
    bundled_facilities,
    cooling_w,
    daily_temperature,
    facility_named,
    parse_facility,
    read_facility,
    temperature_segments,
)

pytestmark = pytest.mark.quick

TABLE = "power,0C,20C\n10kW,1.1,1.3\n20kW,1.2,1.4\n"


def room() -> Facility:
    return parse_facility(TABLE, "room", full_power_w=0)


def pue(facility: Facility, power_w: float, temperature_c: float) -> float:
    return float(facility.pue_at(np.array(power_w), np.array(temperature_c)))


def test_points_of_the_table_are_returned_and_between_them_it_goes_in_proportion() -> None:
    assert pue(room(), 10_000, 0) == 1.1
    assert pue(room(), 20_000, 20) == 1.4
    assert pue(room(), 15_000, 10) == pytest.approx(1.25)


def test_power_is_rounded_to_500_watts() -> None:
    assert pue(room(), 14_800, 0) == pue(room(), 15_200, 0) == pytest.approx(1.15)


def test_beyond_the_table_its_edge_stands() -> None:
    assert pue(room(), 5, -30) == 1.1
    assert pue(room(), 1e6, 50) == 1.4
    assert room().beyond_table(np.array([0.0, 20.0])) == ""
    message = room().beyond_table(np.array([-3.0, 10.0, 22.0]))
    assert "2 of 3 temperatures, -3 to 22 C" in message
    assert "table of 0 to 20 C" in message


def test_cooling_is_what_the_pue_is_above_one() -> None:
    assert float(cooling_w(room(), np.array(20_000.0), np.array(20.0))) == pytest.approx(8000)


def test_the_range_of_a_temperature_spans_all_powers() -> None:
    low, high = room().pue_range(np.array([0.0, 10.0]))
    assert low == pytest.approx([1.1, 1.2])
    assert high == pytest.approx([1.2, 1.3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x: has no table"),
        ("watt,0C\n1W,1.1", "x:1: begins with 'watt'"),
        ("power,0\n1W,1.1", "x:1: '0' is not a temperature"),
        ("power,0C,0C\n1W,1.1,1.1", "x:1: the temperature does not rise"),
        ("power,0C,9C\n1W,1.1,\n", "x:2: no PUE at 9C"),
        ("power,0C,9C\n1W,1.1\n", "x:2: no PUE at 9C"),
        ("power,0C\n1W,1.1,1.2\n", "x:2: has more figures"),
        ("power,0C\n\n9W,1.1\n5W,1.1", "x:4: the power does not rise"),
        ("power,0C\n9,1.1", "x:2: '9' is not a power"),
        ("load,0C\n9W9,1.1", "x:2: '9W9' is not a load"),
        ("power,0C\n9W,0.9", "x:2: '0.9' is not a PUE"),
        ("power,0C\n9W,nan", "x:2: 'nan' is not a PUE"),
    ],
)
def test_unreadable_facility_value_is_named_by_line(text: str, message: str) -> None:
    with pytest.raises(BadInput) as problem:
        parse_facility(text, "x", full_power_w=100)
    assert str(problem.value).startswith(message)
    assert problem.value.hint


def test_loads_are_of_the_full_power(tmp_path) -> None:
    file = tmp_path / "ours.csv"
    file.write_text("load,0C\n50%,1.2\n100%,1.1\n")
    assert read_facility(file, full_power_w=80_000).power_w.tolist() == [40_000, 80_000]
    assert facility_named(str(file), full_power_w=80_000).pue.tolist() == [[1.2], [1.1]]


def test_an_unknown_facility_is_refused() -> None:
    with pytest.raises(BadInput, match="'airy' is not a facility") as problem:
        facility_named("airy", full_power_w=1)
    assert "air" in problem.value.hint


@pytest.mark.parametrize("name", bundled_facilities())
def test_the_bundled_tables_follow_the_formula_of_their_page(name: str) -> None:
    always, at_full, per_degree, from_c = (float(cell.removesuffix(" C")) for cell in documented(name)[:4])
    facility = facility_named(name, full_power_w=1.0)
    load, temperature_c = facility.power_w[:, None], facility.temperature_c[None, :]
    formula = 1 + always + at_full / load + per_degree * np.maximum(temperature_c - from_c, 0)
    assert facility.pue == pytest.approx(formula, abs=1e-4)


def documented(name: str) -> list[str]:
    (row,) = (cells for head, *cells in stored("facility/bundled") if head == f"`{name}`")
    return row


@pytest.mark.parametrize(
    ("name", "mean_c", "swing_c", "paper"),
    [("air", 2, 3, 1.11), ("air", 26, 6, 1.43), ("hybrid", 2, 3, 1.00), ("hybrid", 26, 6, 1.09)],
)
def test_the_bundled_tables_have_the_papers_pue(name: str, mean_c: float, swing_c: float, paper: float) -> None:
    facility = facility_named(name, full_power_w=106_656)
    segments = temperature_segments(*daily_temperature(mean_c, swing_c))
    length_s = np.diff(segments.edge_s)
    each = facility.pue_at(np.full(len(length_s), 0.85 * 106_656), segments.temperature_c)
    pue = np.average(each, weights=length_s)
    assert pue == pytest.approx(paper, abs=0.005)
    cell = documented(name)[4 if mean_c < 10 else 5]
    assert cell == f"{pue:.{len(cell) - 2}f}"


def test_segments_are_as_long_as_the_temperature_is_nearly_the_same() -> None:
    edge_s = np.array([0, 10, 20, 40, 50])
    segments = temperature_segments(edge_s, np.array([1.0, 6.0, 7.0, 4.0]))
    assert segments.edge_s.tolist() == [0, 20, 50]
    assert segments.temperature_c.tolist() == [3.5, 6.0]


def test_the_day_is_warmest_at_15_and_coldest_at_3() -> None:
    edge_s, temperature_c = daily_temperature(10, 5)
    assert len(edge_s) == 25
    assert temperature_c.mean() == pytest.approx(10)
    assert set(np.flatnonzero(temperature_c == temperature_c.max())) <= {14, 15}
    assert set(np.flatnonzero(temperature_c == temperature_c.min())) <= {2, 3}

"""How the table writes durations, money and what was left out."""

import pytest

from offpeak.display import CO2_UNITS, ENERGY_UNITS, clock_text, figure, length_text, unit_of
from offpeak.model.jobs import RejectedJobs
from offpeak.ui.replay.comparison import rejected_remark


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0, "0:00:00"),
        (59.4, "0:00:59"),
        (59.6, "0:01:00"),
        (7509, "2:05:09"),
        (172_799.4, "47:59:59"),
        (172_799.6, "2d 00:00"),
        (285_120, "3d 07:12"),
    ],
)
def test_durations_are_read_off_a_clock(duration_s: float, text: str) -> None:
    assert clock_text(duration_s) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (-0.001, "0.00"), (1234.567, "1,234.57"), (12_345.67, "12,346"), (-1_234_567.8, "-1,234,568")],
)
def test_large_figures_have_no_cents_and_zero_has_no_sign(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("kwh", "text"),
    [
        (0.0, "0.00 kWh"),
        (3.7, "3.70 kWh"),
        (9_999.0, "9,999.00 kWh"),
        (45_520.0, "45.52 MWh"),
        (9.9e6, "9,900.00 MWh"),
        (-2.5e7, "-25.00 GWh"),
    ],
)
def test_energy_has_the_unit_of_its_size(kwh: float, text: str) -> None:
    unit = unit_of(kwh, ENERGY_UNITS)
    assert f"{unit.figure(kwh)} {unit.name}" == text
    assert unit_of(kwh, CO2_UNITS).name == ("t" if abs(kwh) >= 10_000 else "kg")


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0, "0 seconds"),
        (90, "90 seconds"),
        (150, "2 minutes"),
        (3600, "1 hour"),
        (36_000, "10 hours"),
        (172_800, "2 days"),
        (10**8, "1,157 days"),
    ],
)
def test_a_period_is_shown_in_days_or_hours(length_s: int, text: str) -> None:
    assert length_text(length_s) == text


def test_of_many_jobs_left_out_some_are_named() -> None:
    assert rejected_remark(RejectedJobs("too wide", (7,))) == "left out: 1 job, too wide (job 7)"
    assert rejected_remark(RejectedJobs("too wide", (7, 8))) == "left out: 2 jobs, too wide (jobs 7, 8)"
    many = RejectedJobs("too wide", tuple(range(1000)))
    assert rejected_remark(many) == "left out: 1,000 jobs, too wide (jobs 0, 1, 2, 3, 4, ...)"

"""How the table writes money and what was left out."""

import pytest

from offpeak.display import CO2_UNITS, ENERGY_UNITS, figure, unit_of
from offpeak.model.jobs import RejectedJobs
from offpeak.ui.replay.comparison import rejected_remark


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


def test_of_many_jobs_left_out_some_are_named() -> None:
    assert rejected_remark(RejectedJobs("too wide", (7,))) == "left out: 1 job, too wide (job 7)"
    assert rejected_remark(RejectedJobs("too wide", (7, 8))) == "left out: 2 jobs, too wide (jobs 7, 8)"
    many = RejectedJobs("too wide", tuple(range(1000)))
    assert rejected_remark(many) == "left out: 1,000 jobs, too wide (jobs 0, 1, 2, 3, 4, ...)"

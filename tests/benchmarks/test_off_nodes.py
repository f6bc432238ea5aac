"""The day of Harvard's nodes that were off: spikes are refused, and what is booked is within 1 % of the medians."""

from pathlib import Path

import pytest

from benchmarks.off_nodes import FILE, OFF, Booking, SensorDay, book, read_days
from power.meters.plausibility import CONFIRM_READINGS, DrawBound

MOST_NODES, SPIKE_W = 60, 900.0


@pytest.fixture(scope="module")
def supplies(shared: Path) -> list[SensorDay]:
    """The supplies of the enclosures that glitch most."""
    file = shared / FILE.relative_to("../shared")
    if not file.exists():
        pytest.skip("needs the readings of Harvard's nodes")
    days = read_days(file, "supply")
    return sorted(days, key=lambda day: -float((day.power_w > SPIKE_W).sum()))[:MOST_NODES]


def test_spikes_are_refused_by_class_and_state(supplies: list[SensorDay]) -> None:
    done = book(supplies, OFF["supply"])
    assert abs(done.error) < 0.01
    assert done.refused == sum(int((day.power_w > SPIKE_W).sum()) for day in supplies)


def test_spikes_are_refused_by_history_but_for_the_first_readings(supplies: list[SensorDay]) -> None:
    done = book(supplies, DrawBound())
    assert abs(done.error) < 0.01
    assert done.refused == sum(int((day.power_w[CONFIRM_READINGS:] > SPIKE_W).sum()) for day in supplies)


def test_without_checks_they_would_be_booked(supplies: list[SensorDay]) -> None:
    assert book(supplies, None).error > 0.1


def test_the_error_is_that_of_the_energy() -> None:
    assert Booking(energy_j=110.0, covered_s=10.0, median_j=100.0, refused=0).error == pytest.approx(0.1)

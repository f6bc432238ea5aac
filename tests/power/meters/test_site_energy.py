"""The counters of meters check the watts of the same time, and are no second sum."""

import pytest

from offpeak.power.meters.energy import Energy, Part, add_counter_values, add_readings, find_contradictions
from offpeak.power.meters.port import MeterResult, Reading

pytestmark = pytest.mark.quick


def _after(hours: int, *, counts_w: float, reset_at: int = -1) -> dict[Part, str]:
    """Return what is said of a PDU that shows 10 kW and counts `counts_w`, read every hour."""
    sums: dict[Part, Energy] = {}
    counts: dict[Part, object] = {}
    for hour in range(hours + 1):
        counted_j = counts_w * 3600 * (hour - max(reset_at, 0) if hour >= reset_at else hour)
        reading = Reading("rack1", "snmp", "total", 10_000.0, hour * 3600.0, energy_j=counted_j)
        taken = [MeterResult("rack1", "snmp", (reading,))]
        sums = add_readings(sums, taken, longest_hold_s=3600)
        counts = add_counter_values(counts, taken)  # type: ignore[arg-type, assignment]
    return find_contradictions(sums, counts)  # type: ignore[arg-type]


def test_a_counter_that_agrees_says_nothing() -> None:
    assert _after(24, counts_w=10_000) == {}


def test_a_counter_of_a_tenth_is_reported() -> None:
    part = ("rack1", "snmp", "total", None)
    assert _after(24, counts_w=1_000) == {part: "the counter shows 24 kWh, the integrated power 240 kWh"}
    assert part in _after(24, counts_w=100_000)


def test_a_reset_is_no_contradiction() -> None:
    assert _after(24, counts_w=10_000, reset_at=12) == {}


def test_a_meter_without_counter_says_nothing() -> None:
    taken = [MeterResult("n1", "dcmi", (Reading("n1", "dcmi", "total", 200.0, 0.0, node="n1"),))]
    assert find_contradictions(add_readings({}, taken, longest_hold_s=60), add_counter_values({}, taken)) == {}

"""Power from energy counters: what may be added up, a proven wrap, a gap, and a counter that nobody may read."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_tree import write_tree

from offpeak.errors import NotSupported
from offpeak.power.meters.kernel import RaplMeter, RaplZone, additive_zones, mean_power_between
from offpeak.power.meters.port import Reading

pytestmark = pytest.mark.quick

RANGE_UJ = 262_143_328_850
NOON = 1_795_219_200.0
ZONES = {
    "intel-rapl:0": ("package-0", 1_000_000_000),
    "intel-rapl:0:0": ("core", 800_000_000),
    "intel-rapl:0:1": ("dram", 50_000_000),
    "intel-rapl:1": ("package-1", 2_000_000_000),
    "intel-rapl:2": ("psys", 9_000_000_000),
    "intel-rapl-mmio:0": ("package-0", 1_000_000_000),
}


class Machine:
    """A tree of counters, and a meter on it whose clock the test moves."""

    def __init__(self, folder: Path) -> None:
        self.sysfs, self.at_s = folder, 100.0
        for zone, (name, energy_uj) in ZONES.items():
            self.write(zone, "name", name)
            self.write(zone, "energy_uj", energy_uj)
            self.write(zone, "max_energy_range_uj", RANGE_UJ)
        self.meter = RaplMeter("n001", sysfs=folder, now=lambda: NOON, clock=lambda: self.at_s)

    def write(self, zone: str, file: str, value: object) -> None:
        write_tree(self.sysfs, {f"class/powercap/{zone}/{file}": f"{value}\n"})

    def read(self) -> dict[str, Reading]:
        return {reading.part: reading for reading in asyncio.run(self.meter.read())}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_packages_and_their_memory_are_read_and_nothing_that_contains_or_repeats_them(machine: Machine) -> None:
    first = machine.read()
    assert set(first) == {"package-0", "package-0 dram", "package-1"}
    assert first["package-0"] == Reading(
        "n001",
        "rapl",
        "package-0",
        power_w=None,
        at_unix_s=NOON,
        energy_j=1000.0,
        node="n001",
        why="first reading: power comes with the next one",
    )


def test_power_is_what_two_readings_are_apart(machine: Machine) -> None:
    machine.read()
    machine.at_s += 10
    machine.write("intel-rapl:0", "energy_uj", 1_000_000_000 + 1_500_000_000)
    second = machine.read()
    assert (second["package-0"].power_w, second["package-0"].why) == (150.0, "")
    # A counter that stands still is a reading, and a strange one: zero, not nothing.
    assert second["package-1"].power_w == 0.0


def test_a_wrap_is_counted(machine: Machine) -> None:
    machine.write("intel-rapl:0", "energy_uj", RANGE_UJ - 500_000_000)
    machine.read()
    machine.at_s += 10
    machine.write("intel-rapl:0", "energy_uj", 500_000_000)
    assert machine.read()["package-0"].power_w == 100.0


def test_a_reset_is_no_wrap(machine: Machine) -> None:
    machine.read()
    machine.at_s += 10
    machine.write("intel-rapl:0", "energy_uj", 7)
    reading = machine.read()["package-0"]
    assert (reading.power_w, reading.why) == (None, "the counter was reset")


def test_readings_too_far_apart_are_a_gap_even_where_the_counter_has_grown(machine: Machine) -> None:
    machine.read()
    machine.at_s += 263
    machine.write("intel-rapl:0", "energy_uj", 2_000_000_000)
    reading = machine.read()["package-0"]
    assert reading.power_w is None
    assert reading.why == "the previous reading was 263 s ago: the counter may have wrapped since"
    machine.at_s += 10
    machine.write("intel-rapl:0", "energy_uj", 3_000_000_000)
    assert machine.read()["package-0"].power_w == 100.0


def test_after_a_close_the_next_reading_is_a_first_one(machine: Machine) -> None:
    machine.read()
    asyncio.run(machine.meter.close())
    assert machine.read()["package-0"].why.startswith("first reading")


@given(st.integers(0, RANGE_UJ), st.floats(1.0, 260.0), st.floats(0.0, 999.0))
def test_rapl_power_is_independent_of_the_counter_value(start_uj: int, since_s: float, watts: float) -> None:
    end_uj = (start_uj + round(watts * since_s * 1e6)) % RANGE_UJ
    before, now = (RaplZone("intel-rapl:0", "package-0", energy, RANGE_UJ) for energy in (start_uj % RANGE_UJ, end_uj))
    found, why = mean_power_between(before, now, since_s)
    assert why == ""
    assert found == pytest.approx(watts, abs=1e-5)


@pytest.mark.parametrize("since_s", [0.0, -5.0])
def test_a_clock_that_stood_still_tells_nothing(since_s: float) -> None:
    zone = RaplZone("intel-rapl:0", "package-0", 5, RANGE_UJ)
    assert mean_power_between(zone, zone, since_s) == (None, "no time has passed since the previous reading")


def test_a_counter_without_range_is_a_gap_when_it_cannot_be_reported(machine: Machine) -> None:
    (machine.sysfs / "class/powercap/intel-rapl:0/max_energy_range_uj").unlink()
    machine.read()
    machine.at_s += 10
    assert machine.read()["package-0"].power_w is None


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder that may be searched by somebody who is not root, whom the test then is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        was = os.geteuid()
        try:
            yield folder
        finally:
            os.seteuid(was)


def test_a_counter_that_only_root_may_read_says_so(nobody: Path) -> None:
    machine = Machine(nobody)
    for file in nobody.rglob("energy_uj"):
        file.chmod(0o400 if os.geteuid() == 0 else 0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    for reading in machine.read().values():
        assert (reading.power_w, reading.energy_j) == (None, None)
        assert reading.why == "energy_uj cannot be read: the kernel shows it to root only"


def test_a_machine_without_counters_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="n001: has no RAPL counters") as caught:
        asyncio.run(RaplMeter("n001", sysfs=tmp_path).read())
    assert "modprobe" in caught.value.hint


def test_dies_of_a_package_are_packages() -> None:
    zones = tuple(RaplZone(f"intel-rapl:{die}", f"package-0-die-{die}", 1, RANGE_UJ) for die in (0, 1))
    assert set(additive_zones(zones)) == {"package-0-die-0", "package-0-die-1"}

"""The tables of docs/explanation/site-2026.md: cells are computed again and equal those that are stored."""

from pathlib import Path

import pytest
from study_tables import stored

from benchmarks import modern_sites
from offpeak.model.node_cap import cap_curve_named


@pytest.fixture
def modern(shared: Path) -> Path:
    folder = shared / "data" / "modern"
    if not folder.exists():
        pytest.skip("needs the data of modern machines")
    return folder


@pytest.mark.parametrize("name", ["site-2026/caps", "site-2026/marconi", "site-2026/carbon"])
def test_a_table_comes_out_again(modern: Path, name: str) -> None:
    assert modern.is_dir()
    assert modern_sites.TABLES[name.removeprefix("site-2026/")]() == stored(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["site-2026/off", "site-2026/gpu-jobs"])
def test_a_longer_table_comes_out_again(modern: Path, name: str) -> None:
    assert modern.is_dir()
    assert modern_sites.TABLES[name.removeprefix("site-2026/")]() == stored(name)


@pytest.mark.thorough
def test_sleep_on_gaia_comes_out_again(modern: Path) -> None:
    assert modern.is_dir()
    levers, watts = stored("site-2026/levers")[1], stored("site-2026/watts")[1]
    pairs = modern_sites.replayed("Gaia", modern_sites.sleeping)
    assert modern_sites.lever_row("Gaia", levers[1], pairs) == levers
    assert modern_sites.site_row("Gaia") == stored("site-2026/sites")[1]
    assert modern_sites.place_row("DE") in stored("site-2026/place")
    assert modern_sites.watts_cell("Gaia", float(watts[0]), float(watts[1])) == watts[2]


@pytest.mark.thorough
def test_the_demand_charge_of_gaia_comes_out_again(modern: Path) -> None:
    assert modern.is_dir()
    assert modern_sites.demand_rows("Gaia") == [row for row in stored("site-2026/demand") if row[0] == "Gaia"]


def test_the_same_work_needs_the_same_energy_without_a_limit() -> None:
    full = {"power_mean_w": "200", "iters_per_s": "50"}
    assert modern_sites.work_energy(full, full, 300.0) == 1.0
    slow = {"power_mean_w": "100", "iters_per_s": "25"}
    # Half the speed at half the draw costs nothing at the GPU, and time of the rest of the node.
    assert modern_sites.work_energy(slow, full, 0.0) == 1.0
    assert modern_sites.work_energy(slow, full, 400.0) == pytest.approx(800 / 1200 * 2)


def test_the_speeds_are_those_of_the_bundled_curve() -> None:
    slowdowns = cap_curve_named("v100").workloads
    speeds = sorted(speed for points in slowdowns for _, speed in points if 0.6 < speed < 0.8)
    row = next(row for row in stored("site-2026/caps") if row[0] == "945 MHz")
    assert row[2] == f"{100 * speeds[0]:.0f} to {100 * speeds[-1]:.0f}"

"""A file of sites is read whole, and what is wrong in it is said in one line: file, table, key, hint."""

from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from offpeak.errors import BadSites
from offpeak.plugin.federation.sites import mix_carbon, tariff_price
from offpeak.plugin.federation.sites_file import example_sites, read_sites

pytestmark = pytest.mark.quick

NORTH = """\
[sites.north]
nodes = 30
cores_per_node = 4
core_power = "25W"
gflops_per_core = 9.0
pue = 1.5
time_zone = "Europe/Helsinki"
tariff = "on=90EUR/MWh,off=30EUR/MWh"
energy_mix = { coal = 50, hydro = 20, nuclear = 30 }
"""


def test_the_example() -> None:
    grid = example_sites()
    assert grid.names == ("harbour", "valley", "fjord")
    assert grid.units.tolist() == [128, 64, 4992]
    assert grid.cores_per_unit.tolist() == [48, 24, 1]
    assert grid.unit_w.tolist() == [700.0, 204.0, 16.0]
    assert grid.largest_cores.tolist() == [6144, 768, 4992]
    assert grid.sites[0].node_class is not None
    assert grid.sites[0].node_class.idle_w == 200.0
    assert grid.sites[0].zone == ZoneInfo("Europe/Berlin")
    assert grid.sites[0].cue_g_per_kwh == pytest.approx(689.745)
    assert grid.features == ("gpu", "infiniband")
    assert grid.feature_masks.tolist() == [3, 2, 2]
    assert grid.projects == ("climate", "genomics")
    assert grid.allocated_core_s[:, 0].tolist() == [250_000 * 3600, 40_000 * 3600, 0]
    assert np.isinf(grid.allocated_core_s[:, 1:]).all()
    assert grid.latency_s[0, 2] == grid.latency_s[2, 0] == 0.024
    assert grid.bandwidth_mb_per_s[0, 1] == 125.0
    assert grid.bandwidth_mb_per_s[1, 2] == np.inf


def test_a_period_begins_with_a_day_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(NORTH + "allocations = { climate = 10 }\nallocations_since = 1970-01-02\n")
    assert read_sites(tmp_path / "sites.toml").sites[0].allocations_since_s == 22 * 3600


def test_a_site_tells_its_own_series(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(NORTH)
    site = read_sites(tmp_path / "sites.toml").sites[0]
    price, carbon = tariff_price(site, 0, 86_400), mix_carbon(site, 0, 86_400)
    assert price is not None
    assert carbon is not None
    # From 09:00 to 23:00 on its own clock, two hours ahead of UTC.
    assert price.start_s.tolist() == [0, 7 * 3600, 21 * 3600]
    assert carbon.value.tolist() == pytest.approx([459.83])
    market, mixed = example_sites().sites[2], example_sites().sites[0]
    assert tariff_price(mixed, 0, 1) is None
    assert mix_carbon(market, 0, 1) is None


def changed(key: str, line: str) -> str:
    lines = [line if each.startswith(f"{key} =") else each for each in NORTH.splitlines()]
    return "\n".join(lines)


WRONG = [
    (changed("pue", "pue = 0.9"), "sites.north.pue: 0.9 is below 1", "1 at least"),
    (changed("pue", "pue = nan"), "sites.north.pue: nan: input should be a finite number", "sites.md"),
    (changed("pue", ""), "sites.north: has none of pue, facility", "give one of them"),
    (changed("pue", 'pue = 1.2\nfacility = "air"'), "sites.north.facility: stands beside pue", "leave one"),
    (changed("pue", 'facility = "airy"'), "sites.north.facility: 'airy' is not a facility", "did you mean air"),
    (changed("pue", 'facility = "mine.csv"'), "sites.north.facility: ", ""),
    (changed("pue", 'facility = "air"\noutside = nan'), "sites.north.outside: nan", "sites.md"),
    (
        changed("energy_mix", "energy_mix = { coal = 50, hydro = 20 }"),
        "sites.north.energy_mix: the shares add up to 70 %",
        "add up to 100",
    ),
    (
        changed("energy_mix", "energy_mix = { cole = 100 }"),
        "sites.north.energy_mix: cole: is not a source of energy",
        "did you mean coal?",
    ),
    (changed("energy_mix", ""), "sites.north: has none of energy_mix, esc, carbon_zone", "give one of them"),
    (NORTH + 'esc = "400g/kWh"', "sites.north.esc: stands beside energy_mix", "leave one of the two"),
    (changed("energy_mix", 'esc = "400W"'), "sites.north.esc: unknown unit 'W'", "known: g/kWh, kg/MWh, kg/kWh"),
    (
        changed("energy_mix", 'carbon_zone = "US-NY-NYSI"'),
        "sites.north.carbon_zone: 'US-NY-NYSI' is not a zone of carbon intensity",
        "did you mean US-NY-NYIS?",
    ),
    (
        changed("time_zone", 'time_zone = "Europe/Helsinky"'),
        "sites.north.time_zone: unknown time zone 'Europe/Helsinky'",
        "did you mean Europe/Helsinki?",
    ),
    (
        changed("tariff", 'price_zone = "DE_LU"'),
        "sites.north.price_zone: 'DE_LU' is not a price zone",
        "did you mean DE-LU?",
    ),
    (changed("tariff", 'tariff = "on=1"'), "sites.north.tariff: the tariff 'on=1' needs both", "write it like"),
    (changed("core_power", 'core_power = "25"'), "sites.north.core_power: '25' has no unit", "250W"),
    (changed("core_power", 'node_class = "sever"'), "sites.north.node_class: 'sever' is no", "did you mean server?"),
    (NORTH + 'node_class = "server"', "sites.north.core_power: stands beside node_class", "leave one"),
    (NORTH + "cores = 4", "sites.north.cores: stands beside nodes", "leave one of the two"),
    (changed("nodes", "cores = 30"), "sites.north.cores_per_node: goes with nodes", "give nodes"),
    (NORTH + "largest_job = 121", "sites.north.largest_job: 121 cores, but there are 120", "give fewer"),
    (NORTH + "largest_jobs = 2", "sites.north.largest_jobs: is not a key", "largest_job?"),
    (NORTH + "ranks = { hpl = 0 }", "sites.north.ranks.hpl: 0: input should be greater than 0", "sites.md"),
    (NORTH + 'features = "gpu"', "sites.north.features: 'gpu' is not a list", "sites.md"),
    (NORTH + "allocations_since = 2026-10-01", "sites.north.allocations_since: goes with allocations", "give both"),
    (NORTH + "nodes = 3", 'is not TOML: Cannot overwrite a value', "rename one of the two"),
    ("links = []", "sites is missing", "add [sites]"),
    ("sites = {}", "sites: {}: dictionary should have at least 1 item", "sites.md"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), WRONG, ids=[message for _, message, _ in WRONG])
def test_each_mistake_has_its_message(tmp_path: Path, text: str, message: str, hint: str) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(text)
    with pytest.raises(BadSites) as problem:
        read_sites(file)
    assert str(problem.value).startswith(f"{file}: {message}")
    assert "\n" not in str(problem.value)
    assert hint in problem.value.hint


@pytest.mark.parametrize(
    ("link", "message", "hint"),
    [
        ('["north", "nort"]', "there is no [sites.nort]", "did you mean north?"),
        ('["north", "north"]', "north is there twice", "name two sites"),
    ],
)
def test_links_lead_from_site_to_site(tmp_path: Path, link: str, message: str, hint: str) -> None:
    file = tmp_path / "sites.toml"
    file.write_text(f'{NORTH}\n[[links]]\nbetween = {link}\nlatency = "5ms"\nbandwidth = "1Gbit/s"\n')
    with pytest.raises(BadSites) as problem:
        read_sites(file)
    assert str(problem.value) == f"{file}: links[1].between: {message}"
    assert problem.value.hint == hint


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadSites, match="there is no file of sites"):
        read_sites(tmp_path / "sites.toml")
    (tmp_path / "sites.toml").write_bytes(b"\xff")
    with pytest.raises(BadSites, match="is not UTF-8 text"):
        read_sites(tmp_path / "sites.toml")


def test_a_node_class_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_text('idle = "100W"\nrunning = [[0.0, "100W"], [1.0, "333W"]]\n')
    (tmp_path / "sites.toml").write_text(changed("core_power", 'node_class = "big.toml"'))
    assert read_sites(tmp_path / "sites.toml").unit_w.tolist() == [333.0]

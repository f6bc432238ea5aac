"""The file of PV and battery: what it says, and one clear line for each mistake."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from offpeak.errors import BadInput
from offpeak.model.site_devices import NO_BATTERY, Battery
from offpeak.model.site_devices_file import read_devices

pytestmark = pytest.mark.quick

BATTERY = '[battery]\ncapacity = "1MWh"\ncharge = "250kW"\ndischarge = "0.5MW"\nefficiency = 0.88\n'
PV = '[pv]\npower = "pv.csv"\n'
MIDNIGHT_S = int(datetime(2024, 3, 31, tzinfo=UTC).timestamp())


def written(folder: Path, text: str, rows: str = "utc,kw\n2024-03-31T00:00Z,0\n2024-03-31T01:00Z,100\n") -> Path:
    (folder / "pv.csv").write_text(rows)
    file = folder / "devices.toml"
    file.write_text(text)
    return file


def test_a_battery_and_its_states_of_charge(tmp_path: Path) -> None:
    assert read_devices(written(tmp_path, BATTERY)).battery == Battery(1000.0, 250.0, 500.0, 0.88, 500.0, 500.0)
    full = read_devices(written(tmp_path, f"{BATTERY}start = 1\nend = 0.25\n")).battery
    assert (full.start_kwh, full.end_kwh) == (1000.0, 250.0)


def test_hourly_pv_stands_for_each_quarter_and_a_slot_has_its_mean(tmp_path: Path) -> None:
    devices = read_devices(written(tmp_path, PV))
    assert devices.battery is NO_BATTERY
    quarters = MIDNIGHT_S + 900 * np.arange(9)
    assert devices.pv_kw(quarters).tolist() == [0, 0, 0, 0, 100, 100, 100, 100]
    assert devices.pv_kw(np.array([MIDNIGHT_S, MIDNIGHT_S + 5400])).tolist() == [pytest.approx(100 / 3)]


def test_pv_from_radiation_is_peak_times_performance(tmp_path: Path) -> None:
    text = '[pv]\nradiation = "pv.csv"\npeak = "300kW"\nperformance = 0.75\n'
    rows = "utc,shortwave\n2024-03-31T00:00Z,-2\n2024-03-31T01:00Z,1000\n"
    hours = MIDNIGHT_S + 3600 * np.arange(3)
    assert read_devices(written(tmp_path, text, rows)).pv_kw(hours) == pytest.approx([0, 225])
    usual = read_devices(written(tmp_path, text.replace("performance = 0.75\n", ""), rows))
    assert usual.pv_kw(hours) == pytest.approx([0, 240])


def test_local_times_of_a_day_with_23_hours(tmp_path: Path) -> None:
    text = '[pv]\npower = "pv.csv,zone=Europe/Berlin"\n'
    rows = "time,kw\n2024-03-31T00:00,1\n2024-03-31T01:00,2\n2024-03-31T03:00,3\n2024-03-31T04:00,4\n"
    devices = read_devices(written(tmp_path, text, rows))
    assert devices.pv_kw(MIDNIGHT_S - 3600 + 3600 * np.arange(5)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("begin_h", "hours", "missing"),
    [
        (-1, 2, "2024-03-30 23:00 to 2024-03-31 00:00"),
        (0, 5, "2024-03-31 04:00 to 2024-03-31 05:00"),
        (0, 4, "2024-03-31 02:00 to 2024-03-31 03:00"),
    ],
)
def test_a_series_that_is_short_or_has_a_gap_is_named(tmp_path: Path, begin_h: int, hours: int, missing: str) -> None:
    rows = "utc,kw\n" + "".join(f"2024-03-31T0{hour}:00Z,{value}\n" for hour, value in enumerate((0, 100, "", 50)))
    if hours != 4:
        rows = rows.replace("02:00Z,\n", "02:00Z,7\n")
    devices = read_devices(written(tmp_path, PV, rows))
    with pytest.raises(BadInput, match=f"pv.csv, column kw: has no value from {missing} UTC, which the period needs"):
        devices.pv_kw(MIDNIGHT_S + 3600 * (begin_h + np.arange(hours + 1)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "describes no device"),
        ("[wind]\n", "wind: is not a key"),
        (BATTERY.replace('"1MWh"', '"-1MWh"'), "battery.capacity: '-1MWh' is negative"),
        (BATTERY.replace('"1MWh"', '"0kWh"'), "battery.capacity: '0kWh' is nothing"),
        (BATTERY.replace('"1MWh"', "1000"), "battery.capacity: 1000 is not text"),
        (BATTERY.replace('"1MWh"', '"1MW"'), "battery.capacity: unknown unit 'MW'"),
        (BATTERY.replace('"250kW"', '"-3kW"'), "battery.charge: '-3kW' is negative"),
        (BATTERY.replace("0.88", "1.1"), "battery.efficiency: 1.1 is out of range"),
        (BATTERY.replace("0.88", "nan"), "battery.efficiency: nan is not a number"),
        (BATTERY.replace("0.88", "0"), "battery.efficiency: 0 is nothing"),
        (BATTERY + "start = 2\n", "battery.start: 2 is out of range"),
        ('[battery]\ncapacity = "1MWh"\n', "battery: charge is missing"),
        ("[pv]\n", "pv: power is missing"),
        ('[pv]\nradiation = "pv.csv"\n', "pv: peak is missing"),
        ('[pv]\npower = "pv.csv"\npeak = "3kW"\n', "pv.peak: goes with radiation"),
        ("[pv]\npower = 3\n", "pv.power: 3 is not text"),
        ('[pv]\npower = "other.csv"\n', "other.csv"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as raised:
        read_devices(written(tmp_path, text))
    assert raised.value.hint
    assert "\n" not in str(raised.value)

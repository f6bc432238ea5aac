"""Reads the TOML file that describes the PV plant and the battery of a site.

`[pv]` names a CSV file of the plant's power in kW, or one of the radiation in W/m2: its power is then peak x radiation
/ 1000 W/m2 x performance. `[battery]` has its capacity and powers, the efficiency of a round trip, and its states of
charge at the begin and the end of a plan. The CSV file is relative to the folder of the TOML file.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator

from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.description import Description, Share, TableModel, Text, WrongEntry, refuse, text_by
from offpeak.model.site_devices import NO_BATTERY, Battery, SiteDevices
from offpeak.model.step_series import Series
from offpeak.model.units import parse_energy_kwh, parse_power_w
from offpeak.prices.layout import parse_file_and_layout

USUAL_PERFORMANCE = 0.8
"""What a PV plant delivers of its peak power x radiation / 1000 W/m2: module temperature, inverter, cables, dirt."""


def read_devices(path: Path) -> SiteDevices:
    """Return the devices of the TOML file. Raises BadInput with the file, the key and a hint."""
    return DevicesFile.parse(read_bytes(path, BadInput), str(path), lambda tables: _devices(tables, path))


def _above_zero(parse: Callable[[str], float]) -> BeforeValidator:
    def read(text: str) -> float:
        return parse(text) or refuse(f"{text!r} is nothing", hint="leave the table out if there is no such device")

    return text_by(read)


def _efficiency(share: float) -> float:
    if not share:
        raise WrongEntry(f"{share:g} is nothing", hint="leave the table out if there is no such device")
    return share


Watts = Annotated[float, _above_zero(parse_power_w)]


class BatteryTable(TableModel):
    """[battery]: capacity, powers, efficiency of a round trip, and states of charge."""

    capacity: Annotated[float, _above_zero(parse_energy_kwh)]
    charge: Watts
    discharge: Watts
    efficiency: Annotated[Share, AfterValidator(_efficiency)]
    start: Share = 0.5
    end: Share = 0.5


class PvTable(TableModel):
    """[pv]: the plant's power, or the radiation from which it follows."""

    power: Text | None = None
    radiation: Text | None = None
    peak: Watts | None = None
    performance: Share | None = None


class DevicesFile(Description):
    """The whole file."""

    noun = "a file of PV and battery"
    examples: ClassVar = {
        "pv": '{ power = "pv.csv" }',
        "battery": '{ capacity = "500kWh", charge = "250kW", discharge = "250kW", efficiency = 0.88 }',
        "power": '"pv.csv"',
        "peak": '"300kW"',
        "capacity": '"500kWh"',
        "charge": '"250kW"',
        "discharge": '"250kW"',
        "efficiency": "0.88",
    }

    battery: BatteryTable | None = None
    pv: PvTable | None = None


def _devices(tables: DevicesFile, path: Path) -> SiteDevices:
    if tables.battery is None and tables.pv is None:
        raise WrongEntry("describes no device", hint="add [pv] or [battery]")
    battery = NO_BATTERY
    if tables.battery is not None:
        table = tables.battery
        capacity_kwh, charge_kw, discharge_kw = table.capacity, table.charge / 1000, table.discharge / 1000
        start_kwh, end_kwh = table.start * capacity_kwh, table.end * capacity_kwh
        battery = Battery(capacity_kwh, charge_kw, discharge_kw, table.efficiency, start_kwh, end_kwh)
    return SiteDevices(battery, _pv(tables.pv, path.parent) if tables.pv is not None else None)


def _pv(table: PvTable, folder: Path) -> Series:
    if table.radiation is not None:
        if table.power is not None:
            raise WrongEntry("stands beside radiation", "pv", "power", hint="leave one of the two")
        if table.peak is None:
            raise WrongEntry("peak is missing", "pv", hint='add peak = "300kW"')
        performance = USUAL_PERFORMANCE if table.performance is None else table.performance
        file, unit, factor = table.radiation, "W/m2", table.peak / 1e6 * performance
    else:
        for key in ("peak", "performance"):
            if getattr(table, key) is not None:
                raise WrongEntry("goes with radiation", "pv", key, hint=f"leave {key} out, or name radiation")
        if table.power is None:
            raise WrongEntry("power is missing", "pv", hint='add power = "pv.csv"')
        file, unit, factor = table.power, "kW", 1.0
    name, layout = parse_file_and_layout(file)
    # It loads pyarrow, which an agent without a file of PV does without.
    from offpeak.prices.file import read_series

    series = read_series(folder / name.expanduser(), layout, unit=unit)
    # At night an inverter takes a few watts, which meters show as negative power.
    return replace(series, value=np.maximum(series.value, 0.0) * factor, unit="kW")

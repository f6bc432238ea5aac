"""The PV plant and the battery of a site, and the TOML file that describes them.

`[pv]` names a CSV file of the plant's power in kW, or one of the radiation in W/m2: its power is then peak x radiation
/ 1000 W/m2 x performance. `[battery]` has its capacity and powers, the efficiency of a round trip, and its states of
charge at the begin and the end of a plan. The CSV file is relative to the folder of the TOML file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path

import numpy as np

from offpeak.display import minute_text
from offpeak.errors import BadInput
from offpeak.files import read_bytes
from offpeak.model.arrays import Float64, Int64
from offpeak.model.node_class_file import read_power_w, read_share
from offpeak.model.step_series import Series, integral_between
from offpeak.model.toml_file import TomlEntry, TomlFormat
from offpeak.model.units import parse_energy_kwh
from offpeak.prices.layout import parse_file_and_layout

FORMAT = TomlFormat(
    "a file of PV and battery",
    {
        "pv": '{ power = "pv.csv" }',
        "battery": '{ capacity = "500kWh", charge = "250kW", discharge = "250kW", efficiency = 0.88 }',
        "power": '"pv.csv"',
        "radiation": '"sun.csv"',
        "peak": '"300kW"',
        "performance": "0.8",
        "capacity": '"500kWh"',
        "charge": '"250kW"',
        "discharge": '"250kW"',
        "efficiency": "0.88",
        "start": "0.5",
        "end": "0.5",
    },
)
USUAL_PERFORMANCE = 0.8
"""What a PV plant delivers of its peak power x radiation / 1000 W/m2: module temperature, inverter, cables, dirt."""


@dataclass(frozen=True)
class Battery:
    """`efficiency` is that of a round trip, above 0 to 1; `start_kwh` and `end_kwh` lie within the capacity."""

    capacity_kwh: float
    charge_kw: float
    discharge_kw: float
    efficiency: float
    start_kwh: float
    end_kwh: float


NO_BATTERY = Battery(0.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class SiteDevices:
    """The battery, and the power of the PV plant [kW] over time, None without one."""

    battery: Battery
    pv: Series | None

    def pv_kw(self, edges_s: Int64) -> Float64:
        """Return the mean PV power between the edges [Unix s]. Raises BadInput where it is not known."""
        if self.pv is None:
            return np.zeros(len(edges_s) - 1)
        begin_s, until_s = int(edges_s[0]), int(edges_s[-1])
        unknown = [(begin_s, int(self.pv.start_s[0])), *self.pv.gaps(), (self.pv.end_s, until_s)]
        for from_s, to_s in unknown:
            if max(from_s, begin_s) < min(to_s, until_s):
                first, last = (minute_text(at_s, UTC) for at_s in (max(from_s, begin_s), min(to_s, until_s)))
                raise BadInput(
                    f"{self.pv.source}: has no value from {first} to {last} UTC, which the period needs",
                    hint="the PV file must cover the time of the prices without a gap: a night is 0, not empty",
                )
        own_edges_s = np.append(self.pv.start_s, self.pv.end_s)
        return integral_between(own_edges_s, np.nan_to_num(self.pv.value), edges_s) / np.diff(edges_s)


def read_devices(path: Path) -> SiteDevices:
    """Return the devices of the TOML file. Raises BadInput with the file, the key and a hint."""
    whole = FORMAT.parse(read_bytes(path, BadInput), str(path))
    tables = FORMAT.entries_below(whole, (), optional=("pv", "battery"))
    if not tables:
        raise BadInput(f"{path}: describes no device", hint="add [pv] or [battery]")
    battery = _battery(tables["battery"]) if "battery" in tables else NO_BATTERY
    return SiteDevices(battery, _pv(tables["pv"], path.parent) if "pv" in tables else None)


def _battery(table: TomlEntry) -> Battery:
    needed = ("capacity", "charge", "discharge", "efficiency")
    found = FORMAT.entries_below(table, needed, optional=("start", "end"))
    capacity_kwh = _above_zero(found["capacity"], _read_energy_kwh)
    charge_kw, discharge_kw = (_above_zero(found[key], read_power_w) / 1000 for key in ("charge", "discharge"))
    efficiency = _above_zero(found["efficiency"], read_share)
    start, end = (read_share(found[key]) if key in found else 0.5 for key in ("start", "end"))
    return Battery(capacity_kwh, charge_kw, discharge_kw, efficiency, start * capacity_kwh, end * capacity_kwh)


def _pv(table: TomlEntry, folder: Path) -> Series:
    if "radiation" in FORMAT.named_entries(table):
        found = FORMAT.entries_below(table, ("radiation", "peak"), optional=("performance",))
        performance = read_share(found["performance"]) if "performance" in found else USUAL_PERFORMANCE
        file, unit, factor = found["radiation"], "W/m2", _above_zero(found["peak"], read_power_w) / 1e6 * performance
    else:
        file, unit, factor = FORMAT.entries_below(table, ("power",))["power"], "kW", 1.0
    name, layout = parse_file_and_layout(_read_text(file))
    # It loads pyarrow, which an agent without a file of PV does without.
    from offpeak.prices.file import read_series

    series = read_series(folder / name.expanduser(), layout, unit=unit)
    # At night an inverter takes a few watts, which meters show as negative power.
    return replace(series, value=np.maximum(series.value, 0.0) * factor, unit="kW")


def _read_text(entry: TomlEntry) -> str:
    if not isinstance(entry.written, str):
        raise entry.wrong(f"{entry.written!r} is not a text", hint=FORMAT.how_to_write(entry.key.rpartition(".")[2]))
    return entry.written


def _read_energy_kwh(entry: TomlEntry) -> float:
    try:
        return parse_energy_kwh(_read_text(entry))
    except BadInput as problem:
        raise entry.wrong(str(problem), hint=problem.hint) from None


def _above_zero(entry: TomlEntry, read: Callable[[TomlEntry], float]) -> float:
    value = read(entry)
    if not value:
        raise entry.wrong(f"{entry.written!r} is nothing", hint="leave the table out if there is no such device")
    return value

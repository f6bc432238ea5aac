"""`offpeak simulate --devices`: the table, its JSON, and one line for what is wrong."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from offpeak.sim_backend.sample import SAMPLE_LOG, SAMPLE_PRICES

Done = subprocess.CompletedProcess[str]
Offpeak = Callable[..., Done]
BATTERY = '[battery]\ncapacity = "50kWh"\ncharge = "25kW"\ndischarge = "25kW"\nefficiency = 0.88\n'
PV = '[pv]\npower = "pv.csv,start=2023-01-01,step=1h,zone=UTC"\n'


def simulate(offpeak: Offpeak, folder: Path, text: str, *options: str | Path, hours: int = 8760) -> Done:
    sun = (max(0, 6 - abs(hour % 24 - 12)) * 3 for hour in range(hours))
    (folder / "pv.csv").write_text("kw\n" + "".join(f"{kw}\n" for kw in sun))
    (folder / "devices.toml").write_text(text)
    prices = ("--prices", SAMPLE_PRICES, "--devices", folder / "devices.toml")
    return offpeak("simulate", SAMPLE_LOG, "--policy", "easy", *prices, *options)


def test_bills_without_and_with_the_devices(offpeak: Offpeak, tmp_path: Path) -> None:
    done = simulate(offpeak, tmp_path, PV + BATTERY, "--json")
    (policy,) = json.loads(done.stdout)["policies"]
    bill = policy["devices"]
    assert bill["without"] == pytest.approx(policy["cost"])
    assert bill["bound"] < bill["planned"] < bill["pv_alone"] < bill["without"]
    table = simulate(offpeak, tmp_path, PV + BATTERY)
    rows = [line.split() for line in table.stdout.splitlines() if line.startswith("easy ")]
    assert rows[1][1:5] == [f"{bill[name]:,.2f}" for name in ("without", "pv_alone", "planned", "bound")]
    assert (
        "- bills in EUR of machine, cooling and demand charges; the battery follows plans made each midnight"
        in table.stdout
    )


def test_cooling_and_demand_charges_are_in_the_bills(offpeak: Offpeak, tmp_path: Path) -> None:
    done = simulate(offpeak, tmp_path, PV, "--facility", "air", "--json")
    (policy,) = json.loads(done.stdout)["policies"]
    assert policy["devices"]["without"] == pytest.approx(policy["cost"] + policy["cooling_cost"])
    assert policy["devices"]["cycles"] == 0
    contract = tmp_path / "tariff.toml"
    demand = '[[demand]]\nprice = "10EUR/kW"\nper = "month"\n'
    contract.write_text(f'currency = "EUR"\n[[energy]]\nprice = "spot"\n{demand}')
    charged = simulate(offpeak, tmp_path, BATTERY, "--tariff", contract, "--json")
    (with_demand,) = json.loads(charged.stdout)["policies"]
    assert with_demand["devices"]["without"] > policy["devices"]["without"] + 100
    assert with_demand["devices"]["bound"] < with_demand["devices"]["planned"]


@pytest.mark.parametrize(
    ("text", "hours", "message"),
    [
        (PV, 3000, "pv.csv, column kw: has no value from 2023-05-06 00:00 to "),
        (BATTERY.replace("0.88", "1.2"), 1, "battery.efficiency: 1.2 is out of range"),
        (BATTERY.replace("50kWh", "-50kWh"), 1, "battery.capacity: '-50kWh' is negative"),
        ("[pv\n", 1, "devices.toml: "),
    ],
)
def test_bad_input_is_one_line_and_a_hint(
    offpeak: Offpeak, tmp_path: Path, text: str, hours: int, message: str
) -> None:
    done = simulate(offpeak, tmp_path, text, hours=hours)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert first.startswith("offpeak: error: ")
    assert message in first
    assert second.startswith("  hint: ")

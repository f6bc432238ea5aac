"""Each command that asks the site's scheduler asks the one of the settings, whatever else the machine has."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from zygote import Zygote

from offpeak.ledger.ledger import Ledger
from offpeak.ledger.rows import JobUse, Price
from offpeak.settings.ledger import LedgerSettings

SLURM = ("sacct", "sacctmgr", "scontrol", "squeue", "sinfo")
PBS = ("qstat", "pbsnodes", "qmgr", "qalter")
NAMES = ("slurm", "torque", "openpbs", "simulated")
MAY_S = 1_682_899_200.0
INVENTORY = """
[hardware.compute]
node_class = "server"
[[machines]]
nodes = "n1"
hardware = "compute"
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def ledger_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ledger with the prices of May 2023."""
    url = f"sqlite:///{tmp_path_factory.mktemp('month') / 'ledger.sqlite'}"
    ledger = Ledger(LedgerSettings(url=url))
    hours = [MAY_S + 3600 * hour for hour in range(31 * 24)]
    ledger.write_prices([Price(at_s, at_s + 3600, 50.0, "EUR", "published", None) for at_s in hours])
    ledger.write_jobs(
        [JobUse("1", MAY_S, MAY_S + 3600, "ann", "physics", "batch", "n1", 3.6e6, 0.05, "EUR", None, "measured")]
    )
    assert ledger.close() == 0
    return url


@pytest.fixture
def site(tmp_path: Path, environment: dict[str, str], zygote: Zygote, ledger_url: str) -> Run:
    """Runs a command where all schedulers' programs are there, write down that they were asked, and fail."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in (*SLURM, *PBS):
        (programs / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\necho {name}: down >&2\nexit 1\n'
        )
        (programs / name).chmod(0o755)
    (tmp_path / "pbs.conf").write_text(f"PBS_HOME={tmp_path}/openpbs\n")
    (tmp_path / "inventory.toml").write_text(INVENTORY)

    def run(*arguments: str, scheduler: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "offpeak.toml").write_text(
            f'[agent]\nscheduler = "{scheduler}"\nstate_folder = "{tmp_path}"\nsocket = "{tmp_path}/agent.sock"\n'
            f'[pbs]\nhome = "{tmp_path}/torque"\n[hardware]\ninventory = "{tmp_path}/inventory.toml"\n'
            f'[ledger]\nurl = "{ledger_url}"\n[prices]\ntariff = "on=90EUR/MWh,off=30EUR/MWh,hours=09:00-23:00"\n'
        )
        variables = {"PATH": f"{programs}:{os.environ['PATH']}", "PBS_CONF_FILE": str(tmp_path / "pbs.conf")}
        command = [zygote.command, *arguments, "--config", str(tmp_path / "offpeak.toml")]
        return subprocess.run(
            command, cwd=tmp_path, env=environment | variables, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("scheduler", NAMES)
@pytest.mark.parametrize(
    "command",
    ["plan", "check", "estimate", "forecast wait --size 1 --estimate 1h", "power"],
)
def test_only_the_scheduler_of_the_settings_is_queried(command: str, scheduler: str, site: Run, tmp_path: Path) -> None:
    done = site(*command.split(), scheduler=scheduler)
    output, log = done.stdout + done.stderr, tmp_path / "called"
    programs = {line.split()[0] for line in log.read_text().splitlines()} if log.exists() else set[str]()
    assert programs <= set({"slurm": SLURM, "simulated": ()}.get(scheduler, PBS)), output
    if command.split()[0] in ("estimate", "forecast"):
        source = {
            "slurm": ": down",
            "torque": f"{tmp_path}/torque/server_priv/accounting",
            "openpbs": f"{tmp_path}/openpbs/server_priv/accounting",
            "simulated": "the simulated scheduler keeps no accounting",
        }[scheduler]
        assert source in output
    elif scheduler == "simulated":
        assert "offpeak demo" in output or command == "power"
    else:
        assert programs or (command == "power" and scheduler != "slurm"), output


def test_an_option_stands_above_the_file(site: Run, tmp_path: Path) -> None:
    done = site("plan", "--scheduler", "openpbs", scheduler="slurm")
    assert done.returncode == 1
    assert {line.split()[0] for line in (tmp_path / "called").read_text().splitlines()} <= set(PBS)

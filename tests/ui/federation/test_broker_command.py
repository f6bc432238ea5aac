"""`offpeak broker` as a service runs it: it keeps what sites say at hand, answers portals, and ends when told to."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_socket import agent_socket

from benchmarks.local_slurm.processes import listens, reserved_ports, wait_until
from offpeak.plugin.federation.site_report import SiteReport
from offpeak.services.broker.federation import read_snapshots

SITES = """\
[sites.north]
nodes = 8
cores_per_node = 4
core_power = "25W"
gflops_per_core = 9.0
pue = 1.5
time_zone = "UTC"
tariff = "on=90EUR/MWh,off=90EUR/MWh"
esc = "50g/kWh"
reach = "local"
"""
SETTINGS = """\
[agent]
socket = "{folder}/agent.sock"
state_folder = "{folder}"

[broker]
sites = "{folder}/sites.toml"
token_file = "{folder}/token"

[ledger]
url = "sqlite:///{folder}/ledger.sqlite"
"""
REPLY = SiteReport(0.0, "c", "slurm 22", 32, 32, 0, 0)
OFFPEAK = (sys.executable, "-P", "-c", "from offpeak.ui.command import main; main()")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sites.toml").write_text(SITES)
    (tmp_path / "offpeak.toml").write_text(SETTINGS.format(folder=tmp_path))
    alone = SETTINGS.replace('state_folder = "{folder}"', 'state_folder = "{folder}/elsewhere"')
    (tmp_path / "alone.toml").write_text(alone.format(folder=tmp_path))
    (tmp_path / "others.toml").write_text(SITES)
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --ntasks=4 --time=60\nhostname\n")
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("open sesame\n")
    return tmp_path


def test_broker_answers_saves_and_ends(folder: Path, repository: Path) -> None:
    with agent_socket(folder / "agent.sock") as agent, reserved_ports(1) as (port,):
        agent.site = replace(REPLY, at_unix_s=time.time())
        arguments = (*OFFPEAK, "broker", "--listen", f"127.0.0.1:{port}", "--config", folder / "offpeak.toml")
        process = subprocess.Popen(arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(repository)})
        try:
            wait_until(lambda: listens(port) and (folder / "federation.json").exists(), what="the broker")
            assert _query(port)["north"]["idle_cores"] == 32
            kept = read_snapshots(folder, not_before_unix_s=time.time() - 60)
            assert kept is not None
            assert (replace(kept.replies["north"].report, sent_unix_s=None), kept.sent) == (agent.site, ())
            _chooses(folder)
        finally:
            process.terminate()
            status = process.wait(300)
        assert status == 0


def _chooses(folder: Path) -> None:
    """`offpeak submit --dry-run` says what it would say without a broker, and loads nothing that chooses."""
    for arguments in (
        ["job.sh"],
        ["--goal", "time", "--time", "2h", "job.sh"],
        ["--cores", "64", "job.sh"],
        ["--goal", "fame", "job.sh"],
        ["--application", "gromacs", "job.sh"],
        ["--latest-finish", "2020-01-01T00:00Z", "job.sh"],
        ["sites.toml"],
    ):
        assert _without_times(_chosen(folder, "offpeak.toml", arguments)) == (*_chosen_alone(folder, arguments), False)
    assert _chosen(folder, "offpeak.toml", ["--sites", "others.toml", "job.sh"])[2]


def _chosen_alone(folder: Path, arguments: list[str]) -> tuple[int, str]:
    code, text, by_itself = _without_times(_chosen(folder, "alone.toml", arguments))
    assert by_itself
    return code, text


def _chosen(folder: Path, config: str, arguments: list[str]) -> tuple[int, str, bool]:
    """Return exit code and text of `offpeak submit --dry-run`, and whether it loaded numpy."""
    program = (
        "import sys, offpeak.ui.command as c; code = c.run(sys.argv[1:]); print('numpy' in sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "submit", "--dry-run", "--config", config, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    *lines, loaded = done.stdout.splitlines()
    return done.returncode, "\n".join(lines) + done.stderr, loaded == "True"


def _without_times(result: tuple[int, str, bool]) -> tuple[int, str, bool]:
    return result[0], re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "T", result[1]), result[2]


def _query(port: int) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/v1/sites", headers={"Authorization": "Bearer open sesame"})
    return json.loads(connection.getresponse().read())

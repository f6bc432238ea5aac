"""Two agents with a state folder and a socket each, and one ledger: the second one does not start."""

import os
import subprocess
from pathlib import Path

import pytest
from zygote import Zygote

from benchmarks.local_slurm.processes import wait_until

pytestmark = pytest.mark.thorough


def settings_of(folder: Path, url: str) -> Path:
    """Write the settings of an agent without nodes, on a machine without a scheduler."""
    folder.mkdir()
    file = folder / "offpeak.toml"
    file.write_text(
        f'[agent]\nstate_folder = "{folder}"\nsocket = "{folder}/agent.sock"\ncycle = "1s"\n[ledger]\nurl = "{url}"\n'
    )
    return file


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_second_agent_says_who_has_the_ledger(
    database: str, tmp_path: Path, zygote: Zygote, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    if database == "postgresql":
        url = request.getfixturevalue("postgres").create("two_agents")
    one, other = settings_of(tmp_path / "one", url), settings_of(tmp_path / "other", url)
    first = zygote.start(("agent", "--config", str(one)), tmp_path / "agent.log", os.environ)
    try:
        wait_until(lambda: "started in mode" in (tmp_path / "agent.log").read_text(), what="the first agent")
        command = (zygote.command, "agent", "--config", str(other))
        second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert second.returncode not in (0, None)
        assert "another agent has the ledger" in second.stderr
        assert str(first.pid) in second.stderr
        assert not (tmp_path / "other" / "agent.sock").exists()
        command = (zygote.command, "ledger", "prune", "--ledger", url)
        assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    finally:
        first.terminate()
        first.wait(30)

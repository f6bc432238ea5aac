"""The PBS commands of the how-to pages run unchanged and in order on the stand-in."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from pbs_standin import StandIn, installed, standin

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OF_PBS = ("qmgr ", "qstat ", "pbsnodes ", "deploy/openpbs/setup ")


def commands(page: Path) -> list[str]:
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]
    return [line for line in lines if line.startswith(OF_PBS)]


def typed(running: StandIn, command: str, folder: Path, repository: Path) -> str:
    environment = {**os.environ, "PATH": running.path, "OFFPEAK_FORMULA_FILE": str(folder / "formula")}
    arguments = ("bash", "-e", "-o", "pipefail", "-c", command)
    done = subprocess.run(arguments, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout


@pytest.mark.parametrize(("kind", "at_least"), [("torque", 2), ("openpbs", 5)])
def test_what_the_page_has_one_type(kind: str, at_least: int, tmp_path: Path, repository: Path) -> None:
    found = commands(repository / "docs" / "how-to" / f"{kind}.md")
    assert len(found) >= at_least
    with standin(kind, tmp_path) as running:
        if kind == "openpbs":
            installed(running, tmp_path, "uninstall")
        before, managers = dict(running.pbs.attributes), running.pbs.managers
        if kind == "openpbs":
            # The guide's hook for reservations of sleeping nodes sets it.
            before["power_provisioning"] = "True"
        output = [typed(running, command, tmp_path, repository) for command in found]
        assert (running.pbs.attributes, running.pbs.managers) == (before, managers)
        assert not running.pbs.hooks
    if kind == "openpbs":
        assert any("Hook offpeak_runjob" in each and "offpeak_prio" in each for each in output)

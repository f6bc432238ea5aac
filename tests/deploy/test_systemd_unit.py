"""The units of agent, broker and page and what belongs to them, as systemd and sudo judge them."""

import re
import subprocess
from pathlib import Path

import pytest
from needed_programs import need

from benchmarks.local_slurm.processes import SEARCH_PATH

WORST = 2.5
UNITS = {
    "offpeak-agent": {"MemoryDenyWriteExecute=", "PrivateNetwork=", "PrivateUsers=", "ProcSubset="},
    "offpeak-collector@": {"PrivateNetwork=", "PrivateUsers="},
    "offpeak-broker": {"PrivateNetwork=", "PrivateUsers="},
    "offpeak-page": {"PrivateNetwork=", "PrivateUsers="},
}
"""What each unit gives reasons for."""


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "deploy" / "systemd"


def run(*command: str | Path) -> str:
    done = subprocess.run(
        command, env={"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("unit", UNITS)
def test_how_much_a_unit_is_exposed(folder: Path, unit: str) -> None:
    need(["systemd-analyze"], packages="systemd")
    output = run("systemd-analyze", "--no-pager", "security", "--offline=true", folder / f"{unit}.service")
    found = re.search(rf"Overall exposure level for {unit}\w*\.service: (\S+)", output)
    assert found
    assert float(found[1]) <= WORST
    weak = {line.split()[1] for line in output.splitlines() if line.startswith("✗")}
    assert weak >= UNITS[unit]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_knows_every_line(folder: Path, tmp_path: Path, unit: str) -> None:
    need(["systemd-analyze"], packages="systemd")
    text = (folder / f"{unit}.service").read_text() + (folder / "credentials.conf").read_text()
    (tmp_path / f"{unit}.service").write_text(re.sub(r"/opt/offpeak/bin/\w+", "/bin/true", text))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / f"{unit}.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_user_and_group_are_made(folder: Path, tmp_path: Path) -> None:
    need(["systemd-sysusers"], packages="systemd")
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", folder / "offpeak.sysusers")
    assert "offpeak:x:" in (tmp_path / "etc" / "passwd").read_text()
    assert "offpeak-operators:x:" in (tmp_path / "etc" / "group").read_text()


def test_sudo_understands_its_file_also_what_is_commented_out(folder: Path, tmp_path: Path) -> None:
    need(["visudo"], packages="sudo")
    text = (folder / "offpeak.sudoers").read_text()
    for number, rules in enumerate((text, text.replace("\n#offpeak ", "\noffpeak "))):
        file = tmp_path / f"rules{number}"
        file.write_text(rules)
        file.chmod(0o440)
        run("visudo", "--check", f"--file={file}")

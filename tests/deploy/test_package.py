"""What the packages are made of. `make package-trial` installs them; that takes minutes."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from needed_programs import need

from benchmarks.local_slurm.processes import SEARCH_PATH

SCRIPTS = ("build", "repository", "try", "try-rpm", "try-bundle", "bundle", "postinstall", "preremove", "postremove")


def entries(repository: Path) -> list[dict[str, object]]:
    described = yaml.safe_load((repository / "deploy" / "package" / "nfpm.yaml").read_text())
    return list(described["contents"])


def ran(script: Path, *arguments: str, path: str = SEARCH_PATH) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "LC_ALL": "C.UTF-8"}
    return subprocess.run(["sh", script, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_everything_that_is_named_is_there(repository: Path) -> None:
    sources = [str(entry["src"]) for entry in entries(repository) if entry.get("type") not in ("symlink", "dir")]
    own = [source for source in sources if "${STAGE}" not in source]
    assert len(own) > 10
    for source in own:
        assert list(repository.glob(source.rstrip("/"))), source


def test_every_folder_for_admins_is_in_it(repository: Path) -> None:
    sources = " ".join(str(entry.get("src")) for entry in entries(repository))
    for folder in (repository / "deploy").iterdir():
        # An image is built from a clone.
        if folder.is_dir() and folder.name not in ("package", "container"):
            assert f"deploy/{folder.name}/" in sources, folder


@pytest.mark.parametrize("script", [f"package/{name}" for name in SCRIPTS] + ["install", "uninstall"])
def test_a_shell_understands_it(repository: Path, script: str) -> None:
    file = repository / "deploy" / script
    assert os.access(file, os.X_OK)
    done = subprocess.run(["sh", "-n", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_folders_are_made_for_the_agent_alone(repository: Path, tmp_path: Path) -> None:
    need(["systemd-sysusers", "systemd-tmpfiles"], packages="systemd")
    if os.geteuid() != 0:
        pytest.skip("gives folders to another user: needs root")
    (tmp_path / "etc").mkdir()
    systemd = repository / "deploy" / "systemd"
    for command in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
        of = systemd / ("offpeak.sysusers" if command[0] == "systemd-sysusers" else "offpeak.tmpfiles")
        done = subprocess.run([*command, f"--root={tmp_path}", of], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("rror")) == (0, 0), done.stderr
    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777
        for name in ("etc/offpeak", "var/lib/offpeak", "var/lib/offpeak-broker")
    }
    assert modes == {"etc/offpeak": 0o755, "var/lib/offpeak": 0o750, "var/lib/offpeak-broker": 0o700}
    owner = int((tmp_path / "etc" / "passwd").read_text().split("offpeak:x:")[1].split(":")[0])
    assert (tmp_path / "var" / "lib" / "offpeak").stat().st_uid == owner
    broker = (tmp_path / "var" / "lib" / "offpeak-broker").stat()
    assert broker.st_uid not in (0, owner)
    groups = {
        line.split(":")[0]: line.rstrip().split(":")[3].split(",")
        for line in (tmp_path / "etc" / "group").read_text().splitlines()
    }
    assert groups["offpeak-viewers"] == groups["offpeak"] == ["offpeak-page"]
    # The page may hold no nodes.
    assert groups["offpeak-operators"] == [""]
    assert groups["offpeak-broker"] == groups["offpeak-page"] == [""]


def test_removing_is_refused_while_slurm_has_our_programs(repository: Path, tmp_path: Path) -> None:
    # What `scontrol show config` of 22.05 prints of it.
    answer = "ResumeProgram           = /usr/lib/offpeak/offpeak-resume\n"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\nprintf '%s' '{answer}'\n")
    scontrol.chmod(0o755)
    script = repository / "deploy" / "package" / "preremove"
    path = f"{tmp_path}:{SEARCH_PATH}"
    for term in ("remove", "0"):
        done = ran(script, term, path=path)
        assert done.returncode == 1
        assert done.stderr.startswith("offpeak: error: slurm.conf still names the programs")
    for term in ("upgrade", "1"):
        assert ran(script, term, path=path).returncode == 0


def test_what_the_page_needs_is_installed_with_its_unit(repository: Path, tmp_path: Path) -> None:
    # Nothing can be added to a package later.
    pip = tmp_path / "python"
    pip.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    pip.chmod(0o755)
    for extras in ("", "page,postgresql"):
        script = repository / "deploy/package/install-locked"
        subprocess.run([script, pip], env={"EXTRAS": extras, "PATH": "/usr/bin:/bin"}, check=True)
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if "--require-hashes" in line]
    assert [call.count("locks/page.txt") for call in calls] == [1, 1]
    assert [call.count("locks/postgresql.txt") for call in calls] == [0, 1]

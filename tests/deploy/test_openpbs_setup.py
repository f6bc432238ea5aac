"""The installer on an OpenPBS server runs as root: it follows no link and passes qmgr expressions alone."""

import grp
import os
import subprocess
from pathlib import Path

import pytest

QMGR = """#!/bin/sh
printf '%s\\n' "$2" >>{folder}/orders
"""
QSTAT = """#!/bin/sh
printf 'Server: head\\n    server_state = Active\\n    job_sort_formula = %s\\n' "$(cat {folder}/formula)"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    for name, text in (("qmgr", QMGR), ("qstat", QSTAT)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "formula").write_text("2*job_priority")
    return tmp_path


def setup(
    repository: Path, folder: Path, what: str, kept: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [repository / "deploy" / "openpbs" / "setup", what],
        env={"PATH": f"{folder}:/usr/bin:/bin", "OFFPEAK_FORMULA_FILE": str(kept), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def orders(folder: Path) -> list[str]:
    return [line for line in (folder / "orders").read_text().splitlines() if "formula" in line]


def test_a_link_in_the_place_of_the_file_is_replaced_and_never_followed(repository: Path, folder: Path) -> None:
    victim, kept = folder / "shadow", folder / "kept" / "job_sort_formula"
    victim.write_text("precious\n")
    kept.parent.mkdir()
    kept.symlink_to(victim)
    done = setup(repository, folder, "install", kept)
    assert done.returncode == 0, done.stderr
    assert (victim.read_text(), kept.is_symlink(), kept.read_text()) == ("precious\n", False, "2*job_priority\n")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert orders(folder) == ['set server job_sort_formula = "2*job_priority + offpeak_prio"']


def test_a_kept_formula_gives_no_orders_to_qmgr(repository: Path, folder: Path) -> None:
    kept = folder / "kept" / "job_sort_formula"
    kept.parent.mkdir()
    kept.write_text('1"\nset server managers += mallory@*\n')
    (folder / "formula").write_text("2*job_priority + offpeak_prio")
    done = setup(repository, folder, "uninstall", kept)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "has characters that no formula needs" in done.stderr
    assert not (folder / "orders").exists()
    kept.unlink()
    kept.symlink_to(folder / "formula")
    assert setup(repository, folder, "uninstall", kept).returncode == 0
    assert orders(folder) == ['set server job_sort_formula = "2*job_priority"']


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_folder_that_others_may_write_is_refused(repository: Path, folder: Path, mode: int) -> None:
    kept = folder / "kept" / "job_sort_formula"
    kept.parent.mkdir()
    kept.parent.chmod(mode)
    done = setup(repository, folder, "install", kept)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "other users may write there" in done.stderr
    assert not (folder / "orders").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user: needs root")
def test_a_folder_of_another_user_is_refused(repository: Path, folder: Path) -> None:
    kept = folder / "kept" / "job_sort_formula"
    kept.parent.mkdir()
    os.chown(kept.parent, 65534, 65534)
    done = setup(repository, folder, "install", kept)
    assert (done.returncode, "other users may write there" in done.stderr) == (1, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another group: needs root")
@pytest.mark.parametrize(("group", "kept_group"), [(0, False), (12, True)])
def test_the_agents_group_enters_the_folder_of_sched_config(
    repository: Path, folder: Path, group: int, *, kept_group: bool
) -> None:
    sched_priv = folder / "sched_priv"
    sched_priv.mkdir(mode=0o700)
    os.chown(sched_priv, 0, group)
    (folder / "pbs.conf").write_text(f"PBS_SERVER=head\nPBS_HOME={folder}\n")
    environment = {"PBS_CONF_FILE": str(folder / "pbs.conf"), "OFFPEAK_GROUP": "daemon"}
    kept = folder / "kept" / "job_sort_formula"
    assert setup(repository, folder, "install", kept, **environment).returncode == 0
    shared = sched_priv.stat()
    assert setup(repository, folder, "uninstall", kept, **environment).returncode == 0
    assert sched_priv.stat().st_gid == group
    if kept_group:
        assert (shared.st_gid, shared.st_mode & 0o777) == (group, 0o700)
    else:
        assert (shared.st_gid, shared.st_mode & 0o777) == (grp.getgrnam("daemon").gr_gid, 0o710)

"""The forced command of a site: it runs what a broker needs, and nothing else, and no shell reads it."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_fixtures import SlurmAccounting

CONFIG = "SlurmUser               = slurm(64030)\n"
LEVEL = "UserName={user}(1) DefAccount=a DefWckey= AdminLevel={level}\n"
SERVER = "Server: head\n    server_state = Active\n    managers = root@head,\n\t{user}@*\n"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="runs it as another user: needs root")


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not below pytest's folder, which is closed to the user that the program runs as.
    with tempfile.TemporaryDirectory(prefix="offpeak-site-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run_site(repository: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    for name in ("sbatch", "timeout", "squeue", "sh"):
        (folder / name).write_text('#!/bin/sh\nprintf "[%s]" "$0" "$@"\n')
        (folder / name).chmod(0o755)
    return ran(repository, {"PATH": f"{folder}:/usr/bin:/bin"}, command)


def ran(repository: Path, environment: dict[str, str], command: str) -> subprocess.CompletedProcess[str]:
    """Run the program as the user nobody if this process may, like sshd."""
    program = repository / "deploy" / "federation" / "offpeak-site"
    arguments = ["setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    environment = {**environment, "SSH_ORIGINAL_COMMAND": command}
    return subprocess.run([*arguments, program], env=environment, capture_output=True, text=True, check=False)


def answers(folder: Path, name: str, *texts: str) -> None:
    """Make a command print these texts for any arguments."""
    lines = "".join(f"cat <<'E'\n{text}E\n" for text in texts)
    (folder / name).write_text(f"#!/bin/sh\n{lines}")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("squeue --all '--format=%A|%T|%k'", ["squeue", "--all", "--format=%A|%T|%k"]),
        ("timeout 20 sbatch '--comment=a; id $(id)'", ["timeout", "20", "sbatch", "--comment=a; id $(id)"]),
    ],
)
def test_what_a_broker_needs(repository: Path, folder: Path, command: str, arguments: list[str]) -> None:
    answers(folder, "scontrol", CONFIG, LEVEL.format(user="nobody", level="None"))
    done = run_site(repository, folder, command)
    assert done.stdout == "".join(f"[{term}]" for term in [str(folder / arguments[0]), *arguments[1:]])


@pytest.mark.parametrize(
    "command",
    [
        "",
        "sh -c id",
        "timeout 20 sh -c id",
        "timeout 9999 sbatch",
        "timeout --foreground sbatch x",
        "offpeak agent",
        "'",
    ],
)
def test_nothing_else(repository: Path, folder: Path, command: str) -> None:
    done = run_site(repository, folder, command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not allowed" in done.stderr


@needs_root
@pytest.mark.parametrize(
    ("command", "program", "texts", "right"),
    [
        ("sbatch", "scontrol", [CONFIG.replace("slurm(", "nobody("), ""], "SlurmUser"),
        ("sbatch", "scontrol", [CONFIG, LEVEL.format(user="nobody", level="Operator")], "Slurm Operator"),
        ("sbatch", "scontrol", [CONFIG, LEVEL.format(user="nobody", level="Administrator")], "Slurm Administrator"),
        ("sbatch", "scontrol", [""], "unknown"),
        ("sbatch", "other", [""], "unknown"),
        ("qsub", "qstat", [SERVER.format(user="nobody")], "PBS manager"),
        ("qsub", "qstat", [SERVER.format(user="offpeak") + "    operators = nobody@head\n"], "PBS operator"),
        ("qsub", "qstat", [""], "unknown"),
    ],
)
def test_an_account_with_admin_rights_submits_nothing(
    repository: Path, folder: Path, command: str, program: str, texts: list[str], right: str
) -> None:
    answers(folder, program, *texts)
    done = run_site(repository, folder, f"timeout 20 {command}")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"jobs are not submitted as nobody, which is {right}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_account_of_pbs_without_rights_submits(repository: Path, folder: Path) -> None:
    answers(folder, "qstat", SERVER.format(user="offpeak"))
    assert "timeout][20][qsub]" in run_site(repository, folder, "timeout 20 qsub").stdout


@needs_root
def test_root_submits_nothing(repository: Path, folder: Path) -> None:
    program = repository / "deploy" / "federation" / "offpeak-site"
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "SSH_ORIGINAL_COMMAND": "timeout 20 sbatch"}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "not submitted as root, which is root" in done.stderr) == (1, True)


@needs_root
@pytest.mark.parametrize("level", ["None", "Operator"])
def test_the_admin_level_is_that_of_a_real_slurm(
    repository: Path, slurm_accounting: SlurmAccounting, level: str
) -> None:
    cluster = slurm_accounting.cluster
    cluster.run("sacctmgr", "--immediate", "add", "account", "sites")
    cluster.run("sacctmgr", "--immediate", "add", "user", "nobody", "account=sites", f"adminlevel={level}")
    try:
        done = ran(repository, cluster.environment, "timeout 20 sbatch --parsable --begin=now+1hour --wrap=true -D /")
        if level == "None":
            assert done.stdout.strip().isdecimal(), done.stderr
            cluster.run("scancel", done.stdout.strip())
        else:
            assert "jobs are not submitted as nobody, which is Slurm Operator" in done.stderr
    finally:
        cluster.run("sacctmgr", "--immediate", "delete", "user", "nobody")
        cluster.run("sacctmgr", "--immediate", "delete", "account", "sites")

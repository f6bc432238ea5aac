"""deploy/install on a head node: which Python it takes, and what becomes of an earlier one."""

import re
import shlex
import subprocess
import sys
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from booted_head import BootedHead

SITE = "/opt/offpeak-trial-packages"
LOCKS = "/opt/offpeak-trial-locks"
OFFLINE = f"PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONPATH={SITE}"
"""pip finds the requirements of offpeak on this path and downloads nothing."""


PUT_THERE_BY_TESTS = ("/opt/offpeak-*", "/usr/local/lib/offpeak-*", "*/offpeak-test*", "/run/offpeak-probe*")


def installed_here(package: str) -> bool:
    return next(distributions(name=package), None) is not None


@pytest.fixture(scope="module")
def interpreter(head: BootedHead, repository: Path) -> str:
    """This interpreter below a folder {}, which is to be filled in: seen by every user as often as it is needed."""
    base = Path(sys.base_prefix).resolve()
    packages = next(each for each in sys.path if each.endswith("-packages") and (Path(each) / "typer").is_dir())
    head.run(f"mkdir -p {SITE} && mount --bind {shlex.quote(packages)} {SITE}")
    # The versions of these tests instead of the locked ones; pip trusts what is installed, so the hashes do not matter.
    locks = repository / "deploy" / "package" / "locks"
    for name in ("build", "base", "page"):
        pins = re.findall(r"(?m)^([\w.-]+)==", (locks / f"{name}.txt").read_text())
        here = [f"{pin}=={version(pin)} --hash=sha256:{0:064}\n" for pin in sorted(set(pins)) if installed_here(pin)]
        head.write(f"{LOCKS}/{name}.txt", "".join(here))
    head.run(f"mount --bind {LOCKS} {shlex.quote(str(locks))}")
    for name in ("/opt/first", "/opt/second", "/home/somebody/python"):
        head.run(f"mkdir -p {name} && mount --bind {base} {name}")
    return "{}/" + str(Path(sys.executable).resolve().relative_to(base))


def installed(head: BootedHead, repository: Path, python: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    line = f"cd {shlex.quote(str(repository))} && {OFFLINE} {before} PYTHON={python} deploy/install"
    return head.run(line, check=False)


@pytest.mark.parametrize("through", ["folder", "link", "mode"])
def test_a_python_that_the_unit_cannot_enter_is_refused(
    head: BootedHead, repository: Path, interpreter: str, through: str
) -> None:
    head.run("rm -rf /opt/offpeak; chmod 755 /opt/first")
    python, where = interpreter.format("/home/somebody/python"), "/home, which the unit hides"
    if through == "link":
        head.run(f"ln -sfn {python} /usr/local/bin/python-at-home")
        python = "/usr/local/bin/python-at-home"
    elif through == "mode":
        head.run("mkdir -p /opt/closed/python && mount --bind /opt/first /opt/closed/python && chmod 700 /opt/closed")
        python, where = interpreter.format("/opt/closed/python"), "/opt/closed, which the user offpeak may not enter"
    done = installed(head, repository, python)
    assert done.returncode == 2
    assert done.stderr.startswith("offpeak: error: the agent could not run this Python: ")
    assert where in done.stderr
    assert "hint: name one for all users: PYTHON=/usr/bin/python3" in done.stderr
    assert head.run("test -e /opt/offpeak", check=False).returncode == 1


def test_another_python_takes_over_and_all_goes_again(head: BootedHead, repository: Path, interpreter: str) -> None:
    first, second = interpreter.format("/opt/first"), interpreter.format("/opt/second")
    head.run(f"rm -rf /opt/offpeak && {first} -m venv --without-pip /opt/offpeak && touch /opt/offpeak/earlier")
    failed = installed(head, repository, second, before="PIP_CONSTRAINT=/nowhere")
    assert failed.returncode != 0
    assert failed.stderr.endswith("offpeak: error: not installed; the previous installation was restored\n")
    assert head.run("ls -d /opt/offpeak* /opt/offpeak/earlier").stdout.split()[0] == "/opt/offpeak"
    assert head.run("test -e /opt/offpeak/earlier && readlink -f /opt/offpeak/bin/python").stdout.strip() == first
    done = installed(head, repository, second)
    assert done.returncode == 0, done.stderr
    assert head.run("readlink -f /opt/offpeak/bin/python").stdout.strip() == second
    assert head.run("test -e /opt/offpeak.before", check=False).returncode == 1
    command = "setpriv --reuid=offpeak --clear-groups env PYTHONPATH=" + SITE + " offpeak --version"
    assert head.run(command).stdout.startswith("offpeak ")
    asks = "from offpeak.installation import install_hint; print(install_hint('federation'))"
    hint = head.run(f"/opt/offpeak/bin/python -c {shlex.quote(asks)}").stdout.strip()
    assert hint.startswith(f"cd {repository} && env EXTRAS=federation PYTHON=")
    assert head.run(f"readlink -f {hint.split('PYTHON=')[1].split()[0]}").stdout.strip() == second
    # Now uninstall everything, once the scheduler has no trace of offpeak.
    units = "/etc/systemd/system/offpeak-agent.service /etc/systemd/system/offpeak-wake-sleepers.timer"
    head.write("/etc/systemd/system/offpeak-wake-sleepers.timer", "[Timer]\nOnBootSec=1h\n")
    head.write("/usr/local/sbin/offpeak-wake-sleepers", "#!/bin/sh\n", mode=0o755)
    # A slurmctld that does not answer; scontrol itself would try for ten seconds each time.
    head.write("/usr/local/bin/scontrol", "#!/bin/sh\nexit 1\n", mode=0o755)
    head.write("/etc/slurm/slurm.conf", "ClusterName=test\nInclude slurm.conf.offpeak\n")
    head.write("/etc/slurm/slurm.conf.offpeak", (repository / "deploy/slurm/slurm.conf.offpeak").read_text())
    uninstall = f"{shlex.quote(str(repository))}/deploy/uninstall --purge"
    refused = head.run(uninstall, check=False)
    assert refused.returncode == 1
    assert "/etc/slurm/slurm.conf still includes slurm.conf.offpeak" in refused.stderr
    head.run(f"ls {units} /opt/offpeak/bin/offpeak /etc/offpeak/offpeak.toml")
    head.run("sed -i /Include/d /etc/slurm/slurm.conf")
    head.write("/var/lib/offpeak/wake.json", '{"n1": {}}')
    refused = head.run(uninstall, check=False)
    assert "slurmctld does not answer" in refused.stderr
    assert "removed /etc/slurm/slurm.conf.offpeak" in refused.stdout
    head.run("rm /var/lib/offpeak/wake.json")
    for log in ("offpeak.log", "offpeak.log.1", "slurmctld.log"):
        head.write(f"/var/log/slurm/{log}", "a line\n")
    head.run(uninstall)
    assert head.run("ls /var/log/slurm").stdout.split() == ["slurmctld.log"]
    head.run("rm -r /var/log/slurm")
    left = "find /etc /usr/lib /usr/local /usr/share /var/lib /var/cache /run /opt -xdev -name '*offpeak*'"
    but = " ".join(f"! -path '{each}'" for each in PUT_THERE_BY_TESTS)
    assert head.run(f"{left} {but}").stdout == ""
    assert "offpeak" not in head.read("/etc/passwd") + head.read("/etc/group")
    head.run("rm -rf /etc/slurm /usr/local/bin/scontrol")

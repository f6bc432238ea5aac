"""A head node on this machine whose pid 1 is systemd: its units, sandboxes and timers are the real ones."""

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import become_systemd
import pytest
from become_systemd import NAMESPACES, SEARCH_PATH, hierarchies
from needed_programs import need

BOOTED_WITHIN_S = 300.0
ENDED_WITHIN_S = 300.0
COMMAND_S = 300.0


@dataclass(frozen=True)
class BootedHead:
    """Runs commands and takes files; `pid1` is the process of its systemd, as this machine counts."""

    pid1: int

    def run(self, command: str, *, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a line of shell there as root."""
        clean = ("env", "-i", "HOME=/root", "TERM=dumb", "LC_ALL=C.UTF-8", f"PATH={SEARCH_PATH}")
        done = subprocess.run(
            ["nsenter", f"--target={self.pid1}", "--all", *clean, "sh", "-c", command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def write(self, file: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file there, with its folders."""
        self.run(f"install -D -m {mode:o} /dev/stdin {file}", stdin=text)

    def read(self, file: str) -> str:
        """Return the text of a file there."""
        return self.run(f"cat {file}").stdout

    def path(self, file: str) -> Path:
        """Where this machine finds a file of it; an absolute symbolic link on the way leads to this machine's own."""
        return Path(f"/proc/{self.pid1}/root{file}")


def make_accounts(head: BootedHead, deploy: Path) -> None:
    """Make the users and folders there that installing makes."""
    for kind, folder in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
        head.write(f"/usr/lib/{folder}/offpeak.conf", (deploy / f"systemd/offpeak.{kind}").read_text())
    head.run("systemd-sysusers && systemd-tmpfiles --create /usr/lib/tmpfiles.d/offpeak.conf")


def install_command(head: BootedHead, repository: Path) -> None:
    """Put /opt/offpeak/bin/offpeak there: this checkout by this interpreter, wherever these are seen by any user."""
    below = itertools.count()

    def shown(folder: str | Path) -> str:
        place = f"/opt/offpeak-test/{next(below)}"
        head.run(f"mkdir -p {place} && mount --bind {shlex.quote(str(folder))} {place}")
        return place

    interpreter = Path(sys.executable).resolve().relative_to(Path(sys.base_prefix).resolve())
    python = f"{shown(Path(sys.base_prefix).resolve())}/{interpreter}"
    packages = [shown(repository), *(shown(each) for each in sys.path if each.endswith("-packages"))]
    program = f"#!{python}\nimport sys\nsys.path[:0] = {packages}\nfrom offpeak.ui.command import main\nmain()\n"
    head.write("/opt/offpeak/bin/offpeak", program, mode=0o755)
    head.run("ln -sfn /opt/offpeak/bin/offpeak /usr/local/bin/offpeak")


NEEDED = ("/lib/systemd/systemd", "/usr/bin/dbus-daemon", "/usr/bin/nsenter", "/usr/bin/unshare", "/sbin/pivot_root")


def why_none() -> str | None:
    """Return why no head node can be booted here, None if it can."""
    if os.geteuid() != 0:
        return "a booted head node needs root"
    if not hierarchies():
        return "a booted head node needs control groups below /sys/fs/cgroup"
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return f"a booted head node needs namespaces of its own: {tried.stderr.strip()}" if tried.returncode else None


@contextmanager
def booted_head(folder: Path) -> Iterator[BootedHead]:
    """Boot one below `folder` until the block ends."""
    name = f"offpeak-head-{os.getpid()}"
    with (folder / "boot.log").open("w") as log:
        boot = subprocess.Popen(
            [sys.executable, "-I", become_systemd.__file__, name, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    pid1 = None
    try:
        pid1 = _wait_for_systemd(boot, folder)
        yield BootedHead(pid1)
    finally:
        if pid1 is None:
            os.killpg(boot.pid, signal.SIGKILL)
        else:
            _power_off(BootedHead(pid1), boot)
        boot.wait()
        _remove_groups(name)


def _wait_for_systemd(boot: "subprocess.Popen[bytes]", folder: Path) -> int:
    until = time.monotonic() + BOOTED_WITHIN_S
    output = ""
    while time.monotonic() < until and boot.poll() is None:
        pid1 = _child_of(boot.pid)
        if pid1 is not None and Path(f"/proc/{pid1}/comm").read_text().strip() == "systemd":
            requested = BootedHead(pid1).run("systemctl is-system-running", check=False)
            output = requested.stdout.strip()
            if output in ("running", "degraded"):
                return pid1
        time.sleep(0.1)
    raise AssertionError(f"systemd did not boot ({output}):\n{(folder / 'boot.log').read_text()}")


def _child_of(pid: int) -> int | None:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def _power_off(head: BootedHead, boot: "subprocess.Popen[bytes]") -> None:
    with suppress(subprocess.TimeoutExpired):
        head.run("systemctl --force poweroff", check=False)
        boot.wait(ENDED_WITHIN_S)
    if boot.poll() is None:
        # With its pid 1 a namespace ends whole.
        os.kill(head.pid1, signal.SIGKILL)


def _remove_groups(name: str) -> None:
    for mount_point, _ in hierarchies():
        top = Path(mount_point, name)
        folders = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
        for path in (*folders, top):
            with suppress(OSError):
                path.rmdir()


@pytest.fixture(scope="session")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootedHead]:
    """One head node for all tests of a session: it boots within a second, and each test adds its files."""
    need(NEEDED, packages="systemd dbus util-linux")
    if (reason := why_none()) is not None:
        pytest.skip(reason)
    with booted_head(tmp_path_factory.mktemp("head")) as booted:
        yield booted

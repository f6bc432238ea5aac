"""Becomes systemd as pid 1, in namespaces of its own: `become_systemd.py NAME FOLDER`, run as root.

The root is an overlay over this machine's, so that everything installed here is there, and nothing written there stays.
NAME is that of its control groups, and below FOLDER lies what keeps the overlay's files until the namespaces end.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HOST_NAME = "head"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup")
TARGET = "offpeak-test.target"
NEEDS_HARDWARE = (
    *("systemd-udevd.service", "systemd-udevd-kernel.socket", "systemd-udevd-control.socket"),
    *("systemd-udev-trigger.service", "systemd-modules-load.service", "systemd-sysctl.service"),
    *("systemd-random-seed.service", "systemd-timesyncd.service", "systemd-logind.service"),
    *("systemd-remount-fs.service", "systemd-binfmt.service", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"),
    *("dev-hugepages.mount", "dev-mqueue.mount", "getty.target", "console-getty.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "man-db.timer", "e2scrub_all.timer", "dpkg-db-backup.timer"),
)
"""Units that are masked: they want devices, or do the machine's own chores."""


def hierarchies() -> list[tuple[str, list[str]]]:
    """Return where each hierarchy of control groups is mounted, and how it is mounted once more."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    groups = [row for row in rows if row[2] in ("cgroup", "cgroup2")]
    own = {"rw", "ro", "relatime", "nosuid", "nodev", "noexec", "nsdelegate", "memory_recursiveprot"}
    return [
        (row[1], ["-t", row[2], *(["-o", options] if (options := ",".join(set(row[3].split(",")) - own)) else [])])
        for row in groups
    ]


def _enter_own_groups(name: str) -> None:
    for mount_point, _ in hierarchies():
        group = Path(mount_point, name)
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # Empty at first, and then takes nobody.
            if (group / file).exists() and not (group / file).read_text().strip():
                (group / file).write_text((group.parent / file).read_text())
        (group / "cgroup.procs").write_text(str(os.getpid()))


def _lay_root(folder: Path) -> Path:
    disk = folder / "disk"
    disk.mkdir()
    _mount("-t", "tmpfs", "-o", "size=4g", "tmpfs", disk)
    for name in ("upper", "work", "root"):
        (disk / name).mkdir()
    layers = f"lowerdir=/,upperdir={disk}/upper,workdir={disk}/work"
    root = disk / "root"
    _mount("-t", "overlay", "-o", layers, "overlay", root)
    return root


def _lay_kernel_folders(root: Path) -> None:
    _mount("-t", "proc", "proc", root / "proc")
    _mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    found = hierarchies()
    if not any(mount_point == "/sys/fs/cgroup" for mount_point, _ in found):
        _mount("-t", "tmpfs", "tmpfs", root / "sys/fs/cgroup")
    for mount_point, how in found:
        at = root / mount_point.lstrip("/")
        at.mkdir(parents=True, exist_ok=True)
        _mount(*how, "cgroup", at)
    for where in ("run", "dev", "tmp"):
        _mount("-t", "tmpfs", "-o", "mode=1777" if where == "tmp" else "mode=755", "tmpfs", root / where)
    (root / "run/lock").mkdir()
    for device in ("null", "zero", "full", "random", "urandom", "tty"):
        (root / "dev" / device).touch()
        _mount("--bind", f"/dev/{device}", root / "dev" / device)
    for where in ("pts", "shm"):
        (root / "dev" / where).mkdir()
    _mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", root / "dev/pts")
    _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", root / "dev/shm")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        (root / "dev" / name).symlink_to(target)
    _mount("--bind", root / "proc/sys", root / "proc/sys")
    _mount("-o", "remount,bind,ro", root / "proc/sys")


def _write_own_files(root: Path) -> None:
    etc = root / "etc"
    (etc / "hostname").write_text(f"{HOST_NAME}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {HOST_NAME}.example {HOST_NAME}\n")
    (etc / "fstab").write_text("")
    units = etc / "systemd/system"
    (units / TARGET).write_text("[Unit]\nRequires=dbus.service\nAfter=dbus.service\nAllowIsolate=yes\n")
    for unit in NEEDS_HARDWARE:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _become_systemd(folder: Path) -> None:
    _mount("--make-rprivate", "/")
    root = _lay_root(folder)
    _lay_kernel_folders(root)
    _write_own_files(root)
    subprocess.run(["hostname", HOST_NAME], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chdir(root)
    (root / "old").mkdir()
    subprocess.run(["pivot_root", ".", "old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/old"], check=True)
    options = ("--system", f"--unit={TARGET}", "--log-target=journal", "--show-status=0")
    os.execve("/lib/systemd/systemd", ["systemd", *options], {"container": "lxc", "PATH": SEARCH_PATH})


if __name__ == "__main__":
    os.environ["PATH"] = SEARCH_PATH
    if os.getpid() == 1:
        _become_systemd(Path(sys.argv[2]))
    _enter_own_groups(sys.argv[1])
    again = [sys.executable, "-I", __file__, *sys.argv[1:]]
    os.execv(shutil.which("unshare") or "unshare", ["unshare", *NAMESPACES, "--fork", *again])

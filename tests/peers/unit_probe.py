"""Run by a unit in its own sandbox: what can a program do there? Writes JSON to standard output.

Its arguments are a copy of this interpreter that is setuid root, and the sockets to connect to.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

FOLDERS = (
    *("/etc", "/etc/offpeak", "/usr", "/usr/lib", "/opt", "/boot", "/tmp", "/var/tmp", "/var/lib", "/var/log", "/srv"),
    *("/var/lib/offpeak", "/var/cache/offpeak", "/run/offpeak", "/run/offpeak-broker", "/var/lib/offpeak-broker"),
    *("/var/lib/offpeak-page", "/proc/sys/kernel", "/sys/kernel", "/dev/shm"),
)
RESERVED_PORT = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 1023)); print(s.getsockname()[1])"


def main() -> None:
    helper, *sockets = sys.argv[1:]
    found = {
        "user": os.geteuid(),
        "setuid_user": output(helper, "import os; print(os.geteuid())"),
        "setuid_reserved_port": output(helper, RESERVED_PORT),
        "sockets": [path for path in sockets if connects(path)],
        "writable": [folder for folder in FOLDERS if is_writable(Path(folder))],
        "homes": [path for folder in ("/home", "/root") for path in listed(Path(folder))],
        "temporary": is_writable(Path(os.environ.get("TMPDIR", "/tmp"))),
    }
    sys.stdout.write(json.dumps(found))


def output(helper: str, program: str) -> str:
    return subprocess.run([helper, "-I", "-c", program], capture_output=True, text=True, check=False).stdout.strip()


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(300)
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def is_writable(folder: Path) -> bool:
    path = folder / f"offpeak-probe-{os.getpid()}"
    try:
        path.touch(exist_ok=False)
    except OSError:
        return False
    path.unlink()
    return True


def listed(folder: Path) -> list[str]:
    try:
        return [str(path) for path in folder.iterdir()]
    except OSError:
        return []


if __name__ == "__main__":
    main()

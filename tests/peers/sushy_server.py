"""sushy-tools' Redfish emulator: systems whose power really changes, some seconds after they were told."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from benchmarks.local_slurm.processes import listens, reserved_ports, running

LOGIN = ("admin", b"secret")
CONF = """\
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_AUTH_FILE = "{folder}/users"
SUSHY_EMULATOR_STATE_DIR = "{folder}"
SUSHY_EMULATOR_FAKE_SYSTEMS = {systems}
"""


def uuid(number: int) -> str:
    """Return the UUID of the emulator's system n<number>."""
    return f"00000000-0000-0000-0000-{number:012}"


@contextmanager
def sushy(folder: Path, *, on: int, off: int) -> Iterator[str]:
    """Run the emulator with systems n001.. that are on, then some that are off; gives its address."""
    nics = [{"mac": "00:5c:52:31:3a:01", "ip": "172.22.0.1"}]
    systems = [
        {"uuid": uuid(number), "name": f"n{number:03}", "power_state": "On" if number <= on else "Off", "nics": nics}
        for number in range(1, on + off + 1)
    ]
    user, password = LOGIN
    (folder / "users").write_bytes(user.encode() + b":" + bcrypt.hashpw(password, bcrypt.gensalt(4)) + b"\n")
    with reserved_ports(1) as (port,):
        conf = folder / "sushy.conf"
        conf.write_text(CONF.format(port=port, folder=folder, systems=systems))
        program = Path(sys.executable).parent / "sushy-emulator"
        with running(program, "--config", conf, log=folder / "sushy.log", ready=lambda: listens(port)):
            yield f"http://127.0.0.1:{port}"

"""An order that runs out of time: it is ended, and one of another user, which cannot be, is waited for."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CODE = """
import sys, time
from offpeak.plugin.contract.slurm_rights import AdminLevel, SlurmRights
from offpeak.plugin.slurm.commands import CannotAskSlurm, run_scontrol
from offpeak.plugin.slurm.nodes import find_node_uses

prefix, wait_s = sys.argv[1:-1], float(sys.argv[-1])

def said(call):
    begun_s = time.monotonic()
    try:
        text = str(call() or "done")
    except CannotAskSlurm as problem:
        text = str(problem)
    print(f"{text.partition(': process')[0]} {time.monotonic() - begun_s < 1.9}")

order = lambda: run_scontrol(("update",), command=prefix, timeout_s=1.0)
said(order)
said(order)
said(lambda: find_node_uses(("n1",), lambda: SlurmRights("nobody", AdminLevel.ADMINISTRATOR)))
time.sleep(wait_s)
said(lambda: run_scontrol(("ping",), command=prefix, timeout_s=1.0))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody reads, with a scontrol that carries out an update after 2.5 s."""
    with tempfile.TemporaryDirectory(prefix="offpeak-order-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "scontrol").write_text(
            f"#!/bin/sh\n[ $1 = ping ] || {{ sleep 2.5; touch {folder}/late; }}\n", encoding="utf-8"
        )
        (folder / "scontrol").chmod(0o755)
        (folder / "squeue").symlink_to("/bin/false")
        yield folder


def run_by_nobody(folder: Path, *prefix: str, wait_s: float) -> list[str]:
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", CODE)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": "/"}
    command = (*as_nobody, *prefix, str(wait_s))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as two other users: needs root")
def test_an_order_of_another_user_that_cannot_be_ended_holds_up_all_others(folder: Path) -> None:
    """As sudo does: the program has the real uid of root, and the agent may send it no signal."""
    sudo = folder / "sudo"
    shutil.copy(shutil.which("setpriv") or "", sudo)
    sudo.chmod(0o755 | stat.S_ISUID)
    said = run_by_nobody(folder, str(sudo), "--reuid=0", "--regid=0", "--clear-groups", wait_s=3.0)
    late = "scontrol: no answer within 1 s; it cannot be ended, and may still be carried out"
    assert said == [
        f"{late} True",
        "scontrol: an order has run out of time, and cannot be ended True",
        "scontrol: an order has run out of time, and cannot be ended True",
        "done True",
    ]
    assert (folder / "late").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
def test_an_order_of_this_user_ends_with_its_time(folder: Path) -> None:
    said = run_by_nobody(folder, wait_s=3.0)
    assert said[:2] == ["scontrol: no answer within 1 s True"] * 2
    assert said[3] == "done True"
    assert not (folder / "late").exists()


SLOW_SUDO = """
import sys
from offpeak.errors import OrderTooLate
from offpeak.plugin.slurm.commands import CannotAskSlurm, complaint_of_one
from offpeak.process import find_unended_orders, guarded_orders

folder, prefix = sys.argv[1], sys.argv[2:]
calls = []

def guard():
    calls.append(1)
    if len(calls) > 1:
        raise OrderTooLate("the lease has ended")
    return float(open(f"{folder}/allowed").read())

order = ("update", "nodename=n1", "state=drain", 'reason="offpeak: idle"')
try:
    with guarded_orders(guard):
        print(complaint_of_one(order, "error", command=prefix, timeout_s=20.0, on_input=True))
except (CannotAskSlurm, OrderTooLate) as problem:
    print(f"{problem}; {find_unended_orders() or 'none is left'}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user: needs root")
@pytest.mark.parametrize(
    ("allowed_s", "said"),
    [(1.0, "scontrol: no answer within 1 s; none is left"), (10.0, "the lease has ended; none is left")],
)
def test_a_slow_sudo_delays_no_order(folder: Path, allowed_s: float, said: str) -> None:
    """sudo may take long before it starts scontrol: then an order that is too late is not in its input."""
    (folder / "allowed").write_text(str(allowed_s))
    (folder / "scontrol").write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line" >> {folder}/read; done\n')
    sudo = folder / "sudo"
    shutil.copy(shutil.which("setpriv") or "", sudo)
    sudo.chmod(0o755 | stat.S_ISUID)
    slow = ("sh", "-c", 'sleep 2.5; exec "$@"', "sh")
    prefix = (str(sudo), "--reuid=0", "--regid=0", "--clear-groups", *slow)
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", SLOW_SUDO)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": "/"}
    done = subprocess.run(
        (*as_nobody, str(folder), *prefix), env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == (f"{said}\n", "")
    deadline_s = time.monotonic() + 20
    while not (folder / "read").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    # It has read the empty line that the agent waited for, and its end.
    assert (folder / "read").read_text() == "\n"

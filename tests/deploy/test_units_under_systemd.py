"""What a program may do in the sandbox of each unit and drop-in, under a systemd that is pid 1."""

import json
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from booted_head import BootedHead, make_accounts
from needed_programs import need

from offpeak.power.check.as_agent import parse_unit, sandbox_command

PROBE = "/usr/local/lib/offpeak-probe"
TORQUE, MUNGE = "/tmp/trqauthd-unix", "/run/munge/munge.socket.2"
OWN_FOLDERS = {"StateDirectory": "/var/lib", "CacheDirectory": "/var/cache", "RuntimeDirectory": "/run"}
ANYBODYS = {"/dev/shm"}


@dataclass(frozen=True)
class Case:
    """A unit with its drop-ins, the needs of its scheduler's commands, and the highest exposure level of
    systemd-analyze.
    """

    unit: str
    drop_ins: tuple[str, ...] = ()
    becomes_root: bool = False
    torque: bool = False
    shared_tmp: frozenset[str] = frozenset()
    worst: float = 2.5


CASES = {
    "agent on Slurm": Case("offpeak-agent"),
    "agent with credentials": Case("offpeak-agent", ("systemd/credentials.conf",)),
    "agent on OpenPBS": Case("offpeak-agent", ("openpbs/offpeak-agent.conf",), becomes_root=True, worst=5.6),
    "agent on Torque": Case("offpeak-agent", ("torque/offpeak-agent.conf",), torque=True, worst=2.9),
    "broker": Case("offpeak-broker"),
    "broker on OpenPBS": Case("offpeak-broker", ("openpbs/offpeak-broker.conf",), becomes_root=True, worst=5.6),
    "broker on Torque": Case(
        "offpeak-broker", ("torque/offpeak-broker.conf",), torque=True, shared_tmp=frozenset({"/tmp"}), worst=2.9
    ),
    "page": Case("offpeak-page"),
}


@pytest.fixture(scope="module")
def prepared(head: BootedHead, repository: Path) -> Iterator[BootedHead]:
    """The head node with users and folders as installing makes them, the probe, and sockets of daemons that listen."""
    need(["/usr/bin/python3"], packages="python3")
    make_accounts(head, repository / "deploy")
    head.write("/etc/offpeak/bmc.password", "secret\n", mode=0o600)
    head.write("/home/somebody/diary", "private\n")
    head.write(f"{PROBE}/probe.py", (repository / "tests/peers/unit_probe.py").read_text())
    head.run(f"cp -L /usr/bin/python3 {PROBE}/helper && chmod 4755 {PROBE}/helper")
    listeners = [listening(head.path(path)) for path in (TORQUE, MUNGE)]
    yield head
    for listener in listeners:
        listener.close()
    head.run(f"rm -rf /etc/systemd/system/offpeak-*.service* {TORQUE} {MUNGE} && systemctl daemon-reload")


def listening(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o777)
    listener.listen(20)
    return listener


def probed(head: BootedHead, case: Case, repository: Path) -> dict[str, object]:
    """Run the probe by the unit as it is: its program alone is another."""
    unit = f"{case.unit}.service"
    file = next(repository.glob(f"deploy/*/{unit}"))
    head.write(f"/etc/systemd/system/{unit}", file.read_text())
    drop_ins = f"/etc/systemd/system/{unit}.d"
    head.run(f"rm -rf {drop_ins}")
    for number, file in enumerate(case.drop_ins):
        head.write(f"{drop_ins}/{number}.conf", (repository / "deploy" / file).read_text())
    program = (
        "[Service]\nType=oneshot\nRestart=no\nWatchdogSec=0\nExecReload=\nExecStart=\n"
        f"ExecStart=/usr/bin/python3 -I {PROBE}/probe.py {PROBE}/helper {TORQUE} {MUNGE}\n"
        "StandardOutput=truncate:/run/offpeak-probe.json\n"
    )
    head.write(f"{drop_ins}/zz-probe.conf", program)
    head.run(f"systemctl daemon-reload && systemctl start {unit} || (journalctl -n 30 -u {unit} && false)")
    found: dict[str, object] = json.loads(head.read("/run/offpeak-probe.json"))
    return found


def as_the_check_sees_it(head: BootedHead) -> dict[str, object]:
    """Run the probe in the sandbox in which `offpeak check` asks."""
    unit = parse_unit(head.run("systemctl cat offpeak-agent.service").stdout)
    found: dict[str, object] = json.loads(head.run(shlex.join(sandbox_command(unit, unit.command, {}))).stdout)
    return found


def folders(head: BootedHead, unit: str) -> set[str]:
    """Return the folders that the unit has of its own."""
    shown = head.run(f"systemctl show {unit} --property={','.join(OWN_FOLDERS)}").stdout
    pairs = (line.partition("=")[::2] for line in shown.splitlines())
    return {f"{OWN_FOLDERS[key]}/{name}" for key, value in pairs for name in value.split()}


@pytest.mark.parametrize("name", CASES)
def test_what_a_unit_may_do(name: str, prepared: BootedHead, repository: Path) -> None:
    case = CASES[name]
    found = probed(prepared, case, repository)
    temporary = case.shared_tmp if case.torque else {"/tmp", "/var/tmp"}
    assert found["user"] != 0
    assert found["setuid_user"] == ("0" if case.becomes_root else str(found["user"]))
    assert found["setuid_reserved_port"] == ("1023" if case.becomes_root else "")
    assert found["sockets"] == ([TORQUE, MUNGE] if case.torque else [MUNGE])
    assert set(found["writable"]) - ANYBODYS == folders(prepared, case.unit) | temporary  # type: ignore[call-overload]
    assert found["homes"] == []
    assert found["temporary"]
    output = prepared.run(f"systemd-analyze --no-pager security {case.unit}.service", check=False).stdout
    if case.unit == "offpeak-agent":
        assert as_the_check_sees_it(prepared) == found
    exposure = re.search(r"Overall exposure level for \S+: (\S+)", output)
    assert exposure
    assert float(exposure[1]) <= case.worst


def test_what_wakes_sleepers_may_ask_pbs(prepared: BootedHead, repository: Path) -> None:
    found = probed(prepared, Case("offpeak-wake-sleepers"), repository)
    assert found["sockets"] == [TORQUE, MUNGE]
    assert found["setuid_reserved_port"] == "1023"
    output = prepared.run("systemd-analyze --no-pager security offpeak-wake-sleepers.service", check=False).stdout
    exposure = re.search(r"Overall exposure level for \S+: (\S+)", output)
    assert exposure
    assert float(exposure[1]) < 3
    assert found["homes"] == []
    # It acts as the owner of the list that the agent leaves, and reads it as root.
    owner = "os.setgid(65534); os.setuid(65534)"
    prepared.run("install -d -m 750 -o offpeak -g offpeak /var/lib/offpeak")
    prepared.run("install -m 600 -o offpeak -g offpeak /dev/null /var/lib/offpeak/wake.json")
    program = f"import os; open('/var/lib/offpeak/wake.json').close(); {owner}"
    prepared.write("/usr/local/lib/offpeak-probe/owner.py", program + "\n")
    drop_in = "/etc/systemd/system/offpeak-wake-sleepers.service.d/zzz-owner.conf"
    prepared.write(
        drop_in, "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -I /usr/local/lib/offpeak-probe/owner.py\n"
    )
    prepared.run("systemctl daemon-reload && systemctl start offpeak-wake-sleepers.service")

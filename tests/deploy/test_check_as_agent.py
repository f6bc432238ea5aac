"""`offpeak check` of root runs like the agent: as its user, in the sandbox of its unit, under a real systemd."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from booted_head import BootedHead, install_command, make_accounts

UNIT = "/etc/systemd/system/offpeak-agent.service"
INVENTORY = """
[credentials.home]
user = "root"
key_file = "/home/somebody/key"

[credentials.root]
user = "admin"
password_file = "/etc/offpeak/bmc.password"

[hardware.compute]
driver = "ipmi"
credential = "root"
soft_off = { wake = ["bmc"] }

[[machines]]
nodes = "n1"
hardware = "compute"
bmc = "127.0.0.1"
"""


@pytest.fixture(scope="module")
def installed(head: BootedHead, repository: Path) -> BootedHead:
    """A head node with the command and its accounts. The files of its two logins belong to root, or are in a home."""
    make_accounts(head, repository / "deploy")
    install_command(head, repository)
    head.write("/etc/offpeak/inventory.toml", INVENTORY)
    head.write("/etc/offpeak/bmc.password", "secret\n", mode=0o600)
    head.write("/home/somebody/key", "key\n", mode=0o600)
    head.run("chown offpeak /home/somebody/key")
    return head


@pytest.fixture
def with_unit(installed: BootedHead, repository: Path) -> Iterator[BootedHead]:
    installed.write(UNIT, (repository / "deploy/systemd/offpeak-agent.service").read_text())
    installed.run("systemctl daemon-reload")
    yield installed
    installed.run(f"rm -rf {UNIT} {UNIT}.d && systemctl daemon-reload")


def checked(head: BootedHead, before: str = "") -> tuple[dict[str, str], str]:
    """Return the finding for each login, and the remark on the user of the check."""
    done = head.run(f"{before} offpeak check --json --device-timeout 1s", check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)
    return {finding["subject"]: finding["verdict"] for finding in findings if finding["part"] == "login"}, done.stderr


def test_root_asks_in_the_sandbox_of_the_unit(with_unit: BootedHead) -> None:
    with_unit.run("touch /run/offpeak/agent.sock")
    logins, remark = checked(with_unit)
    assert remark == "offpeak: checked as the agent's user, in the sandbox of offpeak-agent.service\n"
    assert logins == {"root": "failed", "home": "failed"}
    with_unit.run("test -e /run/offpeak/agent.sock && rm /run/offpeak/agent.sock")


def test_the_unit_shows_why_nothing_is_read_and_never_that_all_is_well(with_unit: BootedHead) -> None:
    with_unit.write("/usr/local/bin/scontrol", "#!/bin/sh\nsleep 2; echo refused >&2; exit 1\n", mode=0o755)
    tariff = 'tariff = "on=30EUR/MWh,off=30EUR/MWh,hours=00:00-12:00"'
    with_unit.write("/etc/offpeak/offpeak.toml", f'[agent]\ncycle = "1s"\n[prices]\n{tariff}\n')
    with_unit.run("chown offpeak /etc/offpeak/bmc.password && mv /home/somebody/key /etc/offpeak/key")
    shown = []
    try:
        with_unit.run("systemctl start offpeak-agent")
        until = time.monotonic() + 300
        while time.monotonic() < until and not (shown and shown[-1].startswith("cannot read the scheduler: ")):
            shown.append(with_unit.run("systemctl show --value --property=StatusText offpeak-agent").stdout.strip())
            time.sleep(0.2)
    finally:
        with_unit.run(
            "systemctl stop offpeak-agent; mv /etc/offpeak/key /home/somebody/key; rm /usr/local/bin/scontrol"
        )
        with_unit.run("chown root /etc/offpeak/bmc.password; rm -r /etc/offpeak/offpeak.toml /var/lib/offpeak/*")
    assert shown[-1].startswith("cannot read the scheduler: "), shown
    assert "all is well" not in shown
    assert {each for each in shown[:-1] if each} <= {"starting: nothing read yet"}


def test_another_user_gets_the_users_who_can_check(with_unit: BootedHead) -> None:
    _, remark = checked(with_unit, "setpriv --reuid=daemon --clear-groups")
    assert "checked as daemon, outside the agent's unit" in remark
    assert "sudo offpeak check" in remark


def test_files_of_ones_own_are_read_by_oneself(with_unit: BootedHead) -> None:
    done = with_unit.run(
        "offpeak check --json --inventory /etc/offpeak/inventory.toml --device-timeout 1s", check=False
    )
    logins = {load["subject"]: load["verdict"] for load in json.loads(done.stdout) if load["part"] == "login"}
    assert (logins["root"], done.stderr) == ("ok", "")


def test_a_unit_that_cannot_start_its_program_is_reported(with_unit: BootedHead) -> None:
    with_unit.write("/home/somebody/bin/offpeak", "#!/bin/sh\n", mode=0o755)
    with_unit.write(f"{UNIT}.d/home.conf", "[Service]\nExecStart=\nExecStart=/home/somebody/bin/offpeak agent\n")
    with_unit.run("systemctl daemon-reload")
    done = with_unit.run("offpeak check", check=False)
    assert done.returncode == 1
    assert "offpeak-agent.service cannot start /home/somebody/bin/offpeak: systemd's exit code 203" in done.stderr
    assert "deploy/install" in done.stderr


def test_without_the_unit_root_asks_as_the_agents_user(installed: BootedHead) -> None:
    logins, remark = checked(installed)
    assert "checked as the user offpeak, outside a sandbox: offpeak-agent.service is not installed" in remark
    assert logins == {"root": "failed", "home": "ok"}

"""ipmitool drives a virtual BMC: what operators have at hand, and who answers is not our own client."""

import subprocess
import uuid
from collections.abc import Callable, Iterator

import pytest
from needed_programs import need
from served_room import ServedRoom

from benchmarks.local_slurm.processes import wait_until
from offpeak.sim_backend.virtual.node import BmcFaults

Done = subprocess.CompletedProcess[str]
Ask = Callable[..., Done]

NODE = "n01"


@pytest.fixture
def ask(room: ServedRoom, run: Callable[..., Done]) -> Iterator[Ask]:
    """Runs ipmitool on the first BMC, as an administrator with suite 17 unless told otherwise; a fault ends with it."""
    need(["ipmitool"], packages="ipmitool")
    host = room.plan.bmc_hosts[0]

    def ask(*arguments: str, suite: int = 17, user: str = "admin", password: str = "secret", level: str = "") -> Done:
        where = ["-I", "lanplus", "-H", host, "-p", str(room.plan.bmc_port), "-N", "1", "-R", "1", "-C", str(suite)]
        limit = ["-L", level] if level else []
        return run("ipmitool", *where, "-U", user, "-P", password, *limit, *arguments)

    yield ask
    room.do(lambda room: setattr(room.bmcs[NODE], "faults", BmcFaults()))


def fault(room: ServedRoom, faults: BmcFaults) -> None:
    room.do(lambda room: setattr(room.bmcs[NODE], "faults", faults))


def power(ask: Ask) -> str:
    return ask("chassis", "power", "status").stdout.removeprefix("Chassis Power is ").strip()


@pytest.mark.parametrize("suite", [3, 17])
def test_power_on_soft_off_and_cycle(room: ServedRoom, ask: Ask, suite: int) -> None:
    assert ask("chassis", "power", "off", suite=suite).stdout == "Chassis Power Control: Down/Off\n"
    assert ask("chassis", "power", "status", suite=suite).stdout == "Chassis Power is off\n"
    assert "Command not supported in present state" in ask("chassis", "power", "cycle", suite=suite).stderr
    assert ask("chassis", "power", "on", suite=suite).returncode == 0
    assert power(ask) == "on"
    wait_until(lambda: room.do(lambda room: room.nodes[NODE].power_w) == 200, what="the boot")
    assert ask("chassis", "power", "soft", suite=suite).returncode == 0
    wait_until(lambda: power(ask) == "off", what="the shutdown")
    assert ask("chassis", "power", "on", suite=suite).returncode == 0
    assert ask("chassis", "power", "cycle", suite=suite).returncode == 0
    assert ask("chassis", "power", "reset", suite=suite).returncode == 0
    assert "Invalid data field" in ask("chassis", "power", "diag", suite=suite).stderr


def test_the_best_suite_is_found(room: ServedRoom, ask: Ask) -> None:
    assert ask("channel", "getciphers", "ipmi").stdout.count("aes_cbc_128") == 2
    where = ["-I", "lanplus", "-H", room.plan.bmc_hosts[0], "-p", str(room.plan.bmc_port)]
    done = subprocess.run(["ipmitool", *where, "-U", "admin", "-P", "secret", "power", "status"], check=True)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("suite", "why"), [(2, "invalid confidentiality"), (1, "invalid integrity"), (8, "invalid auth")]
)
def test_other_suites_are_refused_by_their_first_unknown_algorithm(ask: Ask, suite: int, why: str) -> None:
    assert why in ask("power", "status", suite=suite).stderr


def test_bmc_reports_its_identity(room: ServedRoom, ask: Ask) -> None:
    guid = room.do(lambda room: room.bmcs[NODE].guid)
    assert f"System GUID   : {guid}" in ask("mc", "guid", "ipmi").stdout
    info = ask("mc", "info").stdout
    assert "IPMI Version              : 2.0" in info
    assert "Chassis Device" in info
    fault(room, BmcFaults(guid=uuid.UUID(int=5)))
    assert str(uuid.UUID(int=5)) in ask("mc", "guid", "ipmi").stdout


def test_bmc_reports_the_watts_of_the_node(room: ServedRoom, ask: Ask) -> None:
    room.do(lambda room: room.nodes[NODE].reset())
    assert "Maximum during sampling period:                300 Watts" in ask("dcmi", "power", "reading").stdout
    wait_until(lambda: room.do(lambda room: room.nodes[NODE].power_w) == 200, what="the boot")
    room.do(lambda room: room.nodes[NODE].use(0.5))
    reading = ask("dcmi", "power", "reading").stdout
    assert "Instantaneous power reading:                   480 Watts" in reading
    assert "Maximum during sampling period:                480 Watts" in reading
    assert "activated" in reading


def test_the_restore_policy_is_kept(ask: Ask) -> None:
    assert "always-off always-on previous" in ask("chassis", "policy", "list").stdout
    assert ask("chassis", "policy", "always-off").returncode == 0
    assert "Power Restore Policy : always-off" in ask("chassis", "status").stdout
    assert ask("chassis", "policy", "previous").returncode == 0
    assert ask("chassis", "power", "on").returncode == 0
    status = ask("chassis", "status").stdout
    assert "Power Restore Policy : previous" in status
    assert "Last Power Event     : command" in status


def test_the_light_blinks(room: ServedRoom, ask: Ask) -> None:
    assert ask("chassis", "identify", "force").returncode == 0
    assert room.do(lambda room: room.bmcs[NODE].identify) == 2
    assert ask("chassis", "identify", "0").returncode == 0
    assert room.do(lambda room: room.bmcs[NODE].identify) == 0


def test_bmc_refuses_unknown_requests(ask: Ask) -> None:
    assert "Invalid command" in ask("sel", "info").stderr


def test_wrong_passwords_and_unknown_users_are_counted(room: ServedRoom, ask: Ask) -> None:
    before = room.do(lambda room: room.bmcs[NODE].logins.failed)
    for login in ({"password": "wrong"}, {"user": "nobody"}, {"user": "operator", "password": "opsecret"}):
        assert "Unable to establish" in ask("power", "status", **login).stderr
    assert room.do(lambda room: room.bmcs[NODE].logins.failed) == before + 3


def test_privileges_are_kept(ask: Ask) -> None:
    operator = {"user": "operator", "password": "opsecret", "level": "OPERATOR"}
    reader = {"user": "reader", "password": "readsecret", "level": "USER"}
    assert ask("power", "on", **operator).returncode == 0
    assert ask("power", "status", **reader).returncode == 0
    assert "Insufficient privilege level" in ask("power", "on", **reader).stderr


def test_faults(room: ServedRoom, ask: Ask) -> None:
    room.do(lambda room: room.nodes[NODE].on())
    fault(room, BmcFaults(drops_commands=True))
    assert ask("power", "off").returncode == 0
    assert power(ask) == "on"
    fault(room, BmcFaults(silent=True))
    assert "Unable to establish" in ask("power", "status").stderr
    fault(room, BmcFaults(delay_s=0.05))
    assert power(ask) == "on"


def test_sessions_are_closed_again(ask: Ask) -> None:
    for _ in range(7):
        assert ask("power", "status").returncode == 0


def test_a_power_limit_is_set_activated_and_obeyed(room: ServedRoom, ask: Ask) -> None:
    room.do(lambda room: room.nodes[NODE].use(1.0))
    full_w = room.do(lambda room: room.nodes[NODE].power_w)
    limit_w = round(full_w - 20)
    assert "No Active Power Limit" in ask("dcmi", "power", "get_limit").stdout
    assert ask("dcmi", "power", "set_limit", "limit", str(limit_w)).returncode == 0
    assert ask("dcmi", "power", "activate").returncode == 0
    shown = ask("dcmi", "power", "get_limit").stdout
    assert "Power Limit Active" in shown.replace("Power limit", "Power Limit").replace("active", "Active")
    assert f"{limit_w} Watts" in shown
    assert room.do(lambda room: room.nodes[NODE].power_w) == limit_w
    assert 0.5 < room.do(lambda room: room.nodes[NODE].now().speed) < 1
    assert ask("dcmi", "power", "set_limit", "limit", "10").returncode != 0
    assert ask("dcmi", "power", "deactivate").returncode == 0
    assert room.do(lambda room: room.nodes[NODE].power_w) == full_w
    room.do(lambda room: room.nodes[NODE].use(0.0))

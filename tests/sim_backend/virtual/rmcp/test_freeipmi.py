"""FreeIPMI drives virtual BMCs without any of the workarounds that other simulators need."""

import subprocess
from collections.abc import Callable

import pytest
from needed_programs import need
from served_room import ServedRoom, planned, served_room

from benchmarks.local_slurm.processes import wait_until

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]

LOGIN = ("-D", "LAN_2_0", "-u", "admin", "-p", "secret", "--session-timeout", "120000")


@pytest.fixture(autouse=True)
def freeipmi() -> None:
    need(["ipmipower", "ipmi-dcmi"], packages="freeipmi-tools")


def where(room: ServedRoom) -> str:
    return f"{room.plan.bmc_hosts[1]}:{room.plan.bmc_port}"


def test_power_on_off_and_soft(room: ServedRoom, run: Run) -> None:
    def power(order: str) -> str:
        return run("ipmipower", *LOGIN, "-h", where(room), order).stdout.rpartition(": ")[2].strip()

    assert power("--off") == "ok"
    assert power("--stat") == "off"
    assert power("--on") == "ok"
    assert power("--stat") == "on"
    wait_until(lambda: room.do(lambda room: room.nodes["n02"].power_w) == 200, what="the boot")
    assert power("--soft") == "ok"
    wait_until(lambda: power("--stat") == "off", what="the shutdown")
    assert room.do(lambda room: room.bmcs["n02"].orders) == [0, 1, 5]


@pytest.mark.parametrize("suite", ["3", "17"])
def test_watts(room: ServedRoom, run: Run, suite: str) -> None:
    room.do(lambda room: room.nodes["n02"].hard_off())
    done = run("ipmi-dcmi", *LOGIN, "-I", suite, "-h", where(room), "--get-system-power-statistics")
    assert "Current Power                        : 15 Watts" in done.stdout
    assert "Power Measurement                    : Active" in done.stdout
    done = run("ipmi-dcmi", *LOGIN, "-h", where(room), "--get-dcmi-capability-info")
    assert "Power Management / Monitoring Support              : Available" in done.stdout


def test_a_wrong_password_is_called_that(room: ServedRoom, run: Run) -> None:
    login = ("-D", "LAN_2_0", "-u", "admin", "-p", "wrong", "-h", where(room))
    assert "password invalid" in run("ipmipower", *login, "--stat").stdout
    nobody = ("-D", "LAN_2_0", "-u", "nobody", "-p", "wrong", "-h", where(room))
    assert "username invalid" in run("ipmipower", *nobody, "--stat").stdout


def test_an_operator_may_switch_and_a_reader_may_not(room: ServedRoom, run: Run) -> None:
    operator = ("-D", "LAN_2_0", "-u", "operator", "-p", "opsecret", "-h", where(room))
    assert run("ipmipower", *operator, "--on").stdout.endswith(": ok\n")
    reader = ("-D", "LAN_2_0", "-u", "reader", "-p", "readsecret", "-h", where(room))
    assert run("ipmipower", *reader, "-l", "user", "--stat").stdout.endswith(": on\n")
    assert "privilege level" in run("ipmipower", *reader, "--on").stdout


def test_sixty_four_in_one_process_answer_at_once(run: Run) -> None:
    plan = planned("n[001-064]")
    with served_room(plan):
        hosts = ",".join(f"{host}:{plan.bmc_port}" for host in plan.bmc_hosts)
        done = run("ipmipower", *LOGIN, "-h", hosts, "--stat")
    assert done.stdout.count(": on\n") == 64

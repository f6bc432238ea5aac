"""net-snmp reads a virtual PDU in every version of SNMP, and cannot write to it."""

import asyncio
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from needed_programs import need
from pdu_reading import login, read_all
from served_room import ServedRoom, planned, served_room

from offpeak.machines.inventory import Pdu
from offpeak.sim_backend.virtual.machine_room import PduFaults, apc_rows
from offpeak.sim_backend.virtual.room_plan import OUTLETS

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]
Ask = Callable[..., Done]

POWER = "1.3.6.1.4.1.318.1.1.26.4.3.1.5.1"
OUTLET_POWER = "1.3.6.1.4.1.318.1.1.26.9.4.3.1.7"
NAME = "1.3.6.1.2.1.1.5.0"

LOGINS = {
    "1": ("-v1", "-c", "public"),
    "2c": ("-v2c", "-c", "public"),
    "3-SHA": ("-v3", "-l", "authPriv", "-u", "mon", "-a", "SHA", "-A", "authpass12", "-x", "AES", "-X", "privpass12"),
    "3-SHA256": (
        *("-v3", "-l", "authPriv", "-u", "mon256", "-a", "SHA-256"),
        *("-A", "authpass12", "-x", "AES", "-X", "privpass12"),
    ),
}


@pytest.fixture
def ask(room: ServedRoom, run: Run) -> Ask:
    """Runs a program of net-snmp on the first PDU."""
    need(["snmpget", "snmpbulkwalk", "snmpset"], packages="snmp")

    def ask(program: str, login: tuple[str, ...], *arguments: str, timeout_s: float = 120.0) -> Done:
        where = f"{room.plan.pdu_hosts[0]}:{room.plan.pdu_port}"
        return run(program, *login, "-t", f"{timeout_s}", "-r", "0", "-Oqn", where, *arguments)

    return ask


@pytest.mark.parametrize("version", LOGINS)
def test_snmp_agent_is_read_only(ask: Ask, version: str) -> None:
    login = LOGINS[version]
    assert ask("snmpget", login, POWER).stdout == f".{POWER} 320\n"
    assert ask("snmpget", login, NAME).stdout == f'.{NAME} "rack1"\n'
    refused = ask("snmpset", login, NAME, "s", "mine").stderr
    assert ("noSuchName" if version == "1" else "notWritable") in refused
    assert ask("snmpget", login, NAME).stdout == f'.{NAME} "rack1"\n'


@pytest.mark.parametrize("version", ["2c", "3-SHA"])
def test_a_bulk_walk_gives_everything_once_and_in_order(room: ServedRoom, ask: Ask, version: str) -> None:
    walked = ask("snmpbulkwalk", LOGINS[version], "1.3.6.1").stdout.splitlines()
    oids = [tuple(map(int, line.split()[0].split(".")[1:])) for line in walked if "No more" not in line]
    assert oids == sorted(room.do(lambda room: apc_rows(room.pdus["rack1"])))


def test_a_walk_in_version_1_ends(ask: Ask) -> None:
    walked = ask("snmpwalk", LOGINS["1"], OUTLET_POWER).stdout.splitlines()
    assert [int(line.split()[1]) for line in walked] == [200] * 16 + [0] * (OUTLETS - 16)


def test_watts_follow_the_nodes(room: ServedRoom, ask: Ask) -> None:
    room.do(lambda room: room.nodes["n02"].use(0.5))
    assert ask("snmpget", LOGINS["2c"], f"{OUTLET_POWER}.2").stdout.endswith(" 480\n")
    room.do(lambda room: room.nodes["n02"].use(0.0))


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ((*LOGINS["3-SHA"][:8], "wrongpass12", *LOGINS["3-SHA"][9:]), "Authentication failure"),
        ((*LOGINS["3-SHA"][:12], "wrongpass12"), "Decryption error"),
        (("-v3", "-l", "authNoPriv", *LOGINS["3-SHA"][3:9]), "Unsupported security level"),
        (("-v3", "-l", "noAuthNoPriv", "-u", "mon"), "Unsupported security level"),
        (("-v3", "-l", "noAuthNoPriv", "-u", "nobody"), "Unknown user name"),
    ],
)
def test_strangers_read_nothing(ask: Ask, login: tuple[str, ...], message: str) -> None:
    done = ask("snmpget", login, POWER)
    assert (done.stdout, message in done.stderr) == ("", True), done.stderr


def test_a_wrong_community_is_not_answered(ask: Ask) -> None:
    done = ask("snmpget", ("-v2c", "-c", "private"), POWER, timeout_s=0.5)
    assert (done.stdout, "Timeout" in done.stderr) == ("", True), done.stderr


def test_snmp_agent_reports_missing_objects(ask: Ask) -> None:
    assert "No Such Instance" in ask("snmpget", LOGINS["2c"], "1.3.6.1.4.1.318.1.1.26.4.3.1.5.2").stdout


def test_a_silent_pdu(room: ServedRoom, ask: Ask) -> None:
    room.do(lambda room: setattr(room.pdus["rack1"], "faults", PduFaults(silent=True)))
    assert "Timeout" in ask("snmpget", LOGINS["2c"], POWER, timeout_s=0.5).stderr
    room.do(lambda room: setattr(room.pdus["rack1"], "faults", PduFaults()))
    assert ask("snmpget", LOGINS["2c"], POWER).returncode == 0


def test_pdus_and_their_readers_leave_the_shared_generator_of_random_numbers_alone(tmp_path: Path) -> None:
    before = random.getstate()
    with served_room(planned("n[1-2]")) as room:
        pdu = Pdu("rack1", room.plan.pdu_hosts[0], "apc", login(tmp_path, "public"), room.plan.pdu_port)
        (readings,) = asyncio.run(read_all([pdu]))
    assert not isinstance(readings, BaseException)
    assert readings[0].power_w == 400
    assert random.getstate() == before

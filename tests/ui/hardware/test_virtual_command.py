"""`offpeak virtual`: a room that other programs find with the files that it writes, until it is told to end."""

import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from needed_programs import need
from served_room import planned

from offpeak.machines.node_sets import expand
from offpeak.ui.command import run

OFFPEAK = Path(sys.executable).with_name("offpeak")


@pytest.fixture
def place() -> list[str]:
    """Options for addresses that no other room of this machine has."""
    plan = planned("n1")
    ports = ["--bmc-port", str(plan.bmc_port), "--pdu-port", str(plan.pdu_port)]
    return ["--bmc-address", plan.bmc_host, "--pdu-address", plan.pdu_host, *ports]


@contextmanager
def running(folder: Path, environment: dict[str, str], *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command until the block ends; gives the process and what it printed first."""
    command = ["setpriv", "--pdeathsig", "TERM", OFFPEAK, "virtual", *options]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            output = ""
            while not output.endswith("Ctrl-C ends it.\n"):
                line = process.stdout.readline()
                assert line, output
                output += line
            yield process, output
        finally:
            process.terminate()


def test_files_of_the_virtual_room_suffice_for_other_commands(
    tmp_path: Path, environment: dict[str, str], place: list[str]
) -> None:
    need(["ipmitool", "snmpget"], packages="ipmitool snmp")
    with running(tmp_path, environment, "--nodes", "n[01-30]", *place) as (process, output):
        folder = tmp_path / "virtual"
        site = tomllib.loads((folder / "inventory.toml").read_text())
        bmcs = [node for table in site["machines"] for node in expand(table["bmc"])]
        hardware, login = site["hardware"]["virtual"], site["credentials"]["bmc"]
        where = ["-I", "lanplus", "-H", bmcs[29], "-p", str(hardware["port"]), "-C", str(hardware["cipher_suite"])]
        secret = folder / login["password_file"]
        status = ["ipmitool", *where, "-U", login["user"], "-f", str(secret), "chassis", "power", "status"]
        assert subprocess.check_output(status, text=True) == "Chassis Power is on\n"
        pdu = site["pdus"]["rack2"]
        read = ["snmpget", "-v2c", "-c", (folder / "pdu.community").read_text().strip(), "-Oqv"]
        power = [*read, f"{pdu['host']}:{pdu['port']}", "1.3.6.1.4.1.318.1.1.26.4.3.1.5.1"]
        assert subprocess.check_output(power, text=True, env=os.environ | {"MIBS": ""}) == "120\n"
        assert pdu["outlets"] == {"1-6": "n[25-30]"}
        assert [node for table in site["machines"] for node in expand(table["nodes"])] == list(expand("n[01-30]"))
        assert output.startswith("30 virtual nodes of class server, 1x real time\n")
        assert secret.read_text().strip() not in output
        assert {stat.S_IMODE(file.stat().st_mode) for file in (secret, folder / "pdu.community")} == {0o600}
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0


def test_virtual_room_restarts_with_its_files(tmp_path: Path, environment: dict[str, str], place: list[str]) -> None:
    options = ["--nodes", "n[1-2]", "--folder", "room", *place]
    with running(tmp_path, environment, *options) as (process, _):
        secret = (tmp_path / "room" / "bmc.password").read_text()
        inventory = tmp_path / "room" / "inventory.toml"
        inventory.write_text(inventory.read_text() + "# enrolled\n")
        process.terminate()
        assert process.wait(300) == 0
    with running(tmp_path, environment, *options, "--clock-factor", "60"):
        assert (tmp_path / "room" / "bmc.password").read_text() == secret
        assert inventory.read_text().endswith("# enrolled\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            "--nodes n[1-2] --bmc-address 0.0.0.0",
            "0.0.0.0: 2 addresses from there on are not all on loopback",
            "virtual",
        ),
        ("--nodes n[1-2] --pdu-address 10.1.1.1", "10.1.1.1: 1 addresses from there on are not all on", "virtual"),
        ("--nodes n[1-2] --bmc-address here", "'here' is no IPv4 address", "write it like 127.0.40.1"),
        ("--nodes n[1-", "'n[1-' is not a node set", "write node sets as n[001-064]"),
        ("--nodes n1 --node-class juffit", "'juffit' is not a node class", "did you mean jufit?"),
        (
            "--nodes n1 --node-class jufit",
            "jufit: nodes of this class cannot be switched off",
            "name one that has [off]",
        ),
        ("--nodes n1 --clock-factor 0", "Invalid value for '--clock-factor'", "offpeak virtual --help"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: str,
    message: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["virtual", *arguments.split()]) == 2
    error, advice = capfd.readouterr().err.splitlines()
    assert error.startswith(f"offpeak: error: {message}")
    assert advice.startswith(f"  hint: {hint}")
    assert list(tmp_path.iterdir()) == []


def test_an_inventory_of_another_room_is_not_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inventory.toml").write_text("# my own\n")
    assert run(["virtual", "--nodes", "n1", "--folder", str(tmp_path)]) == 2
    assert "inventory.toml: is there already, and of another room" in capfd.readouterr().err
    assert (tmp_path / "inventory.toml").read_text() == "# my own\n"
    assert [file.name for file in tmp_path.iterdir()] == ["inventory.toml"]


def test_a_password_that_others_may_read_is_not_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bmc.password").write_text("secret\n")
    (tmp_path / "bmc.password").chmod(0o644)
    assert run(["virtual", "--nodes", "n1", "--folder", str(tmp_path)]) == 2
    assert "others than its owner may read it" in capfd.readouterr().err


def test_a_folder_that_cannot_be_written(capfd: pytest.CaptureFixture[str], place: list[str]) -> None:
    assert run(["virtual", "--nodes", "n1", "--folder", "/proc/room", *place]) == 1
    assert "/proc/room: cannot be written" in capfd.readouterr().err


def test_a_file_is_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str], place: list[str]) -> None:
    (tmp_path / "room").write_text("")
    assert run(["virtual", "--nodes", "n1", "--folder", str(tmp_path / "room"), *place]) == 2
    assert "room: is not a folder" in capfd.readouterr().err

"""Servers of tests: they are ready when the block begins and gone when it ends, whatever happens."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.local_slurm.processes import end_processes_with, listens, reserved_ports, running

SERVE = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SERVE


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_ports(1) as (port,):
        yield port


def test_a_server_is_ready_inside_the_block_and_gone_after_it(tmp_path: Path, port: int) -> None:
    command = (sys.executable, "-c", SERVE, str(port))
    with running(*command, log=tmp_path / "log", ready=lambda: listens(port)):
        assert listens(port)
    assert not listens(port)


def test_a_server_is_gone_after_an_error_too(tmp_path: Path, port: int) -> None:
    command = (sys.executable, "-c", SERVE, str(port))
    with pytest.raises(ZeroDivisionError), running(*command, log=tmp_path / "log", ready=lambda: listens(port)):
        1 / 0  # noqa: B018
    assert not listens(port)


def test_a_server_that_will_not_go_is_killed(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.local_slurm.processes.STOP_S", 0.1)
    with running(sys.executable, "-c", DEAF, str(port), log=tmp_path / "log", ready=lambda: listens(port)):
        pass
    assert not listens(port)


def test_a_server_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no room')")
    with (
        pytest.raises(RuntimeError, match="ended with 1: no room"),
        running(*command, log=tmp_path / "log", ready=lambda: False),
    ):
        pass


def test_orphaned_processes_of_a_server_are_ended(tmp_path: Path, port: int) -> None:
    fork = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SERVE!r}, *sys.argv[1:]]);"
    environment = {"PLACE": str(tmp_path)}
    command = (sys.executable, "-c", fork + "time.sleep(60)", str(port))
    with running(*command, log=tmp_path / "log", ready=lambda: listens(port), environment=environment):
        pass
    end_processes_with("PLACE", tmp_path / "other")
    assert listens(port)
    end_processes_with("PLACE", tmp_path)
    assert not listens(port)


def test_reserved_ports_are_distinct_and_not_given_to_others() -> None:
    with reserved_ports(100) as ports, reserved_ports(100) as others:
        assert len({*ports, *others}) == 200
        with socket.socket() as stranger, pytest.raises(OSError, match="Address already in use"):
            stranger.bind(("127.0.0.1", ports[0]))

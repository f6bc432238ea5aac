"""What systemd hears, at a socket as it makes them."""

import os
import socket
from pathlib import Path

import pytest

from power.agent.notify import ALIVE, READY, notify, reloading, status, watchdog_s


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_one_datagram_with_all_states(tmp_path: Path, kind: str) -> None:
    shown = str(tmp_path / "notify") if kind == "file" else f"@offpeak-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(shown.replace("@", "\0", 1))
        systemd.settimeout(1)
        assert notify(READY, status("14 nodes on\n2 off"), environment={"NOTIFY_SOCKET": shown})
        assert systemd.recv(4096) == b"READY=1\nSTATUS=14 nodes on 2 off"
        assert notify(reloading(12.5), environment={"NOTIFY_SOCKET": shown})
        assert systemd.recv(4096) == b"RELOADING=1\nMONOTONIC_USEC=12500000"


@pytest.mark.parametrize("address", ["", "vsock:2:7", "/nowhere/at/all", "@"])
def test_nobody_listens(address: str) -> None:
    assert not notify(ALIVE, environment={"NOTIFY_SOCKET": address})
    assert not notify(ALIVE, environment={})


def test_a_systemd_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        sent = [notify(ALIVE, environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) for _ in range(5000)]
    assert sent[0]
    assert not sent[-1]


def test_how_often_it_must_be_told() -> None:
    assert watchdog_s({"WATCHDOG_USEC": "30000000"}) == 30
    assert watchdog_s({"WATCHDOG_USEC": "0"}) is None
    assert watchdog_s({"WATCHDOG_USEC": "soon"}) is None
    assert watchdog_s({}) is None

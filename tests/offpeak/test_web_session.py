"""An exchange ends in time as a whole, wherever its server drips; a command arrives soon, or never."""

import socket
import subprocess
import sys

import lost_network
import pytest
import requests
from dripping_server import dripping_server
from needed_programs import need

from offpeak.errors import OrderTooLate
from offpeak.web_session import WebSession, read_body

LIMIT_S = 0.5


@pytest.mark.parametrize("where", ["head", "body", "endless"])
def test_an_answer_that_drips_is_broken_off(where: str) -> None:
    with dripping_server(where) as server:
        with (
            pytest.raises(requests.Timeout),
            WebSession() as session,
            session.within(LIMIT_S),
            session.get(server.url, timeout=300, stream=True) as response,
        ):
            read_body(response, most_bytes=1000)
        server.wait_until_left()


def test_a_proxy_that_drips_is_broken_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping_server("head") as server:
        monkeypatch.setenv("https_proxy", server.url)
        with pytest.raises(requests.Timeout), WebSession() as session, session.within(LIMIT_S):
            session.get("https://prices.invalid/", timeout=300)
        server.wait_until_left()


def test_the_guard_is_called_over_the_open_connection_and_keeps_the_request_back() -> None:
    """A connection takes a while, in which what the guard has checked may change."""
    with socket.create_server(("127.0.0.1", 0)) as server, WebSession() as session:
        accepted: list[socket.socket] = []

        def guard() -> None:
            server.settimeout(10)
            accepted.append(server.accept()[0])
            raise OrderTooLate("too late")

        session.before_sending(guard)
        with pytest.raises(OrderTooLate):
            session.post(f"http://127.0.0.1:{server.getsockname()[1]}/Reset", json={"ResetType": "ForceOff"})
        session.close()
        with accepted[0] as connection, pytest.raises(ConnectionResetError):
            # Nothing came. So the kernel ends a killed process, too: what it had not delivered is never delivered.
            connection.recv(1000)


def test_the_kernel_does_not_deliver_a_command_after_its_driver_has_given_it_up() -> None:
    """When the network is back, the node may have a job."""
    need(["unshare", "ip"], packages="util-linux iproute2")
    command = ("unshare", "--net", "--map-root-user", sys.executable, lost_network.__file__)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")

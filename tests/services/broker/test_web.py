"""Portals over HTTP: their rights, replies and refusals, and signed snapshots for other brokers."""

import asyncio
import http.client
import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from agent_socket import agent_socket
from dripping_server import dripping_server

from benchmarks.local_slurm.processes import wait_until
from offpeak.errors import BadInput
from offpeak.machines.credentials import Secret
from offpeak.plugin.federation.sites import Reach
from offpeak.services.broker.federation import FederationSnapshot, read_snapshots
from offpeak.services.broker.portal import BrokerPortal
from offpeak.services.broker.servers import MOST_BODY_BYTES, MOST_CLIENTS, PortalProtocol, portal_app, serve_portals
from offpeak.services.broker.signatures import (
    ANSWER,
    NONCE,
    REQUEST,
    SIGNATURE,
    SITE,
    TIME,
    ReplayGuard,
    check_answer,
    check_stamp,
    new_stamp,
)
from offpeak.services.broker.site_poller import Poller, poll_sites
from offpeak.settings.broker import BrokerSettings

sys.path.append(str(Path(__file__).parent))
from three_sites import GRID, IDLE, SCRIPT, ledger_in

TOKEN, SECRET = Secret(b"open sesame"), Secret(b"between brokers")
SITES = """\
[sites.north]
nodes = 8
cores_per_node = 4
core_power = "25W"
gflops_per_core = 9.0
pue = 1.5
time_zone = "UTC"
tariff = "on=90EUR/MWh,off=30EUR/MWh"
esc = "50g/kWh"
reach = "local"
"""


@dataclass
class Portal:
    """Asks a broker that runs here."""

    port: int
    poller: Poller
    folder: Path

    def ask(self, method: str, path: str, body: object = None, token: str = "open sesame") -> tuple[int, Any]:
        """Return status and answer."""
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, text, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    (tmp_path / "sites.toml").write_text(SITES)
    settings = BrokerSettings(sites=tmp_path / "sites.toml", mode="shadow")
    with agent_socket(tmp_path / "run" / "agent.sock") as agent:
        agent.site = replace(IDLE, at_unix_s=time.time())
        ledger = ledger_in(tmp_path)
        poller = Poller(settings, ledger, socket=agent.path, state_folder=tmp_path)
        asyncio.run(poller.round())
        app = portal_app(BrokerPortal(poller, settings, ledger, agent.path), TOKEN, SECRET)
        with serve_portals(("127.0.0.1", 0), app) as (_, port):
            yield Portal(port, poller, tmp_path)
        ledger.close()


def test_request_with_the_token_is_answered(portal: Portal) -> None:
    status, output = portal.ask("POST", "/v1/choose", {"script": SCRIPT})
    assert (status, output["site"], output["expected"]["currency"]) == (200, "north", "EUR")
    status, output = portal.ask("GET", "/v1/sites")
    assert (status, output["north"]["idle_cores"], output["north"]["trouble"]) == (200, 32, "")
    assert portal.ask("GET", "/v1/jobs/none")[0] == 404
    kept = read_snapshots(portal.folder, not_before_unix_s=time.time() - 60)
    assert kept == FederationSnapshot(portal.poller.federation.replies)


@pytest.mark.parametrize("token", ["", "wrong", "open sesam"])
def test_request_without_the_token_is_refused(portal: Portal, token: str) -> None:
    for method, path in (
        ("POST", "/v1/choose"),
        ("POST", "/v1/submit"),
        ("GET", "/v1/jobs/k"),
        ("DELETE", "/v1/jobs/k"),
    ):
        assert portal.ask(method, path, {"script": SCRIPT}, token)[0] == 401


@pytest.mark.parametrize(
    ("body", "output"),
    [
        (b"{", "no JSON"),
        ([], "the body"),
        ({}, "script"),
        ({"script": SCRIPT, "shell": "sh"}, "shell"),
        ({"script": "no script"}, "does not begin with #!"),
        ({"script": SCRIPT, "goal": "fame"}, "is not a goal"),
        ({"script": SCRIPT, "latest_finish": "2020-01-01T00:00Z"}, "has passed"),
        ({"script": SCRIPT, "user": "ann\n"}, "user"),
    ],
)
def test_errors_are_reported(portal: Portal, body: object, output: str) -> None:
    status, answer = portal.ask("POST", "/v1/choose", body)
    assert (status, output in answer["error"]) == (400, True), answer


def test_portal_limits_and_mode(portal: Portal) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", portal.port, timeout=300)
    connection.putrequest("POST", "/v1/submit")
    connection.putheader("Authorization", "Bearer open sesame")
    connection.putheader("Content-Length", str(MOST_BODY_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 400
    status, answer = portal.ask("POST", "/v1/submit", {"script": SCRIPT})
    assert (status, answer["error"]) == (400, "key: is missing")
    status, answer = portal.ask("POST", "/v1/submit", {"script": SCRIPT, "key": "k"})
    assert (status, "only recorded in mode shadow" in answer["error"]) == (502, True)


def test_snapshots_are_signed_both_ways(portal: Portal, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_bytes(SECRET.value)
    reach = Reach("local", agent=f"http://127.0.0.1:{portal.port}", secret_file=file)
    there = replace(GRID.sites[0], name="north", reach=reach)
    reply = asyncio.run(poll_sites([there], socket=tmp_path / "nobody", timeout_s=120.0))["north"]
    before = portal.poller.federation.replies["north"].report
    assert reply.report
    assert before
    assert reply.report == replace(before, sent_unix_s=reply.report.sent_unix_s)
    other = replace(there, name="east")
    reply = asyncio.run(poll_sites([other], socket=tmp_path / "nobody", timeout_s=120.0))["east"]
    assert "east: is not a site of this broker (a site has the same name in both" in reply.problem
    file.write_bytes(b"another")
    reply = asyncio.run(poll_sites([there], socket=tmp_path / "nobody", timeout_s=120.0))["north"]
    assert (reply.report, "agent does not answer" in reply.problem) == (None, True)


def test_an_agent_whose_answer_drips_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_bytes(SECRET.value)
    with dripping_server() as server:
        there = replace(GRID.sites[0], name="there", reach=Reach("local", agent=server.url, secret_file=file))
        reply = asyncio.run(poll_sites([there], socket=tmp_path / "nobody", timeout_s=0.5))["there"]
        assert (reply.report, "does not answer" in reply.problem or "did not answer" in reply.problem) == (None, True)
        server.wait_until_left()


def test_altered_answers_and_those_to_others_are_refused() -> None:
    stamp = new_stamp("north", 1000.0)
    headers = stamp.headers(SECRET, ANSWER, b"said")
    assert check_stamp(SECRET, ANSWER, headers, b"said") == stamp
    # The answer to it counts whatever the clock of the other side says.
    check_answer(replace(stamp, at_unix_s=5), stamp)
    for altered, kind, body in (
        ({}, ANSWER, b"sai"),
        ({}, REQUEST, b"said"),
        ({TIME: "1001"}, ANSWER, b"said"),
        ({TIME: "x"}, ANSWER, b"said"),
        ({TIME: "\u0661"}, ANSWER, b"said"),
        ({SITE: "east"}, ANSWER, b"said"),
        ({SITE: "north\n1000"}, ANSWER, b"said"),
        ({NONCE: "0" * 32}, ANSWER, b"said"),
        ({SIGNATURE: ""}, ANSWER, b"said"),
        ({SIGNATURE: "\u0661"}, ANSWER, b"said"),
    ):
        with pytest.raises(BadInput, match="not signed with our key"):
            check_stamp(SECRET, kind, headers | altered, body)
    with pytest.raises(BadInput, match="answers another request"):
        check_answer(new_stamp("north", 1000.0), stamp)
    with pytest.raises(BadInput, match="answers for the site east, not for north"):
        check_answer(replace(stamp, site="east"), stamp)


def test_a_request_is_answered_once_and_within_a_minute_of_either_clock(portal: Portal) -> None:
    requests, stamp = ReplayGuard(), new_stamp("north", 1000.0)
    for now_s in (939.0, 1061.0):
        with pytest.raises(BadInput, match="differs from this clock by 61 s"):
            requests.check(stamp, now_s)
    requests.check(stamp, 1030.0)
    with pytest.raises(BadInput, match="was answered before"):
        requests.check(stamp, 1059.0)
    headers = new_stamp("north", time.time()).headers(SECRET, REQUEST, b"GET /v1/snapshot")
    statuses = []
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", portal.port, timeout=300)
        connection.request("GET", "/v1/snapshot", headers=headers)
        answer = connection.getresponse()
        statuses.append((answer.status, b"was answered before" in answer.read()))
    assert statuses == [(200, False), (403, True)]


def test_a_site_that_falls_silent_ages_and_a_wrong_file_changes_nothing(portal: Portal) -> None:
    before = portal.poller.federation
    (portal.folder / "run" / "agent.sock").unlink()
    (portal.folder / "sites.toml").write_text("[sites")
    asyncio.run(portal.poller.round())
    assert portal.poller.federation.grid.names == before.grid.names
    assert portal.poller.federation.replies == before.replies
    (portal.folder / "sites.toml").write_text(SITES + SITES.replace("sites.north", "sites.south"))
    asyncio.run(portal.poller.round())
    assert portal.poller.federation.grid.names == ("north", "south")
    assert portal.ask("GET", "/v1/sites")[1]["south"]["trouble"].startswith("its agent does not answer")


def test_dripping_requests_keep_no_portal_out(portal: Portal) -> None:
    with ExitStack() as open_:
        drips = [open_.enter_context(socket.create_connection(("127.0.0.1", portal.port))) for _ in range(MOST_CLIENTS)]
        for each in drips:
            each.sendall(b"GET /v1/sites HTTP/1.1\r\nX: ")
        for _ in range(3):
            assert portal.ask("GET", "/v1/sites")[0] == 200
        # One makes room for each, the oldest first.
        drips[0].settimeout(300)
        # What the server has not read yet makes its end a reset.
        with suppress(ConnectionResetError):
            assert drips[0].recv(1) == b""


HEAD = b"POST /v1/choose HTTP/1.1\r\nAuthorization: Bearer open sesame\r\nContent-Length: 99999\r\n\r\n"


@pytest.mark.parametrize("begin", [b"GET /v1/sites HTTP/1.1\r\nX: ", HEAD])
def test_a_request_has_to_arrive_in_time_as_a_whole(
    portal: Portal, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    monkeypatch.setattr(PortalProtocol, "request_s", 1.0)
    with socket.create_connection(("127.0.0.1", portal.port), timeout=300) as drips, suppress(OSError):
        drips.sendall(begin)
        wait_until(lambda: drips.send(b"x") == 1 and bool(select.select([drips], [], [], 0.2)[0]), what="the end")

"""The access to the page and the metrics, and the headers for browsers."""

import http.client
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from page_site import ENVIRONMENT, OFFPEAK, PageSite, make_snapshot, page_site
from zygote import Zygote

from offpeak.errors import BadInput, BadSetting
from offpeak.machines.credentials import Secret
from offpeak.services.bounded_http import MOST_CONNECTIONS
from offpeak.services.page.access import check_page_listen, is_loopback, may_see, parse_page_listen

pytestmark = pytest.mark.quick

TOKEN = "0123456789abcdef"


def answer(site: PageSite, path: str = "/", **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of one request."""
    connection = http.client.HTTPConnection(site.url.removeprefix("http://").rstrip("/"), timeout=300)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, body


@pytest.fixture(scope="module")
def site(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    with page_site(zygote, tmp_path_factory.mktemp("open"), make_snapshot(4, 3), hours=1) as site:
        yield site


@pytest.fixture(scope="module")
def guarded(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "page.token"
    file.touch(0o600)
    file.write_text(f"{TOKEN}\n")
    with page_site(zygote, folder, make_snapshot(4, 3), "--page-token-file", str(file), hours=1) as site:
        yield site


@pytest.mark.parametrize("path", ["/", "/metrics", "/static/page.css", "/static/nothing.js", "/static/app.py"])
def test_browsers_must_run_nothing_else(site: PageSite, path: str) -> None:
    status, headers, _ = answer(site, path)
    assert status == (404 if path.endswith(("nothing.js", "app.py")) else 200)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_page_accepts_reading_requests_only(site: PageSite) -> None:
    connection = http.client.HTTPConnection(site.url.removeprefix("http://").rstrip("/"), timeout=300)
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        connection.request(method, "/")
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 405
    connection.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8017", "192.0.2.7", "localhost.evil.example", ""])
def test_a_name_that_only_leads_here_is_refused(site: PageSite, host: str) -> None:
    status, headers, body = answer(site, Host=host)
    assert status == 403
    assert "this machine only" in body
    assert "content-security-policy" in headers


def test_page_with_a_token_refuses_requests_without_it(guarded: PageSite) -> None:
    for path in ("/", "/metrics", "/events", "/static/page.js", "/?token=wrong"):
        assert answer(guarded, path)[0] == 401
    assert answer(guarded, Authorization="Bearer wrong")[0] == 401
    assert answer(guarded, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert answer(guarded, Cookie='offpeak_page="')[0] == 401


def test_the_token_does_not_stay_in_the_address(guarded: PageSite) -> None:
    status, headers, _ = answer(guarded, f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert answer(guarded, Cookie=cookie.partition(";")[0], Host="head.example")[0] == 200


def test_the_token_is_nowhere_in_the_log(guarded: PageSite) -> None:
    answer(guarded, f"/?token={TOKEN}")
    assert TOKEN not in guarded.log.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "head.example"])
def test_remote_browsers_need_a_token(host: str) -> None:
    with pytest.raises(BadInput, match="needs a token"):
        check_page_listen(host, None)
    check_page_listen(host, Secret(b"x"))


def test_listen_addresses_are_parsed() -> None:
    assert parse_page_listen("127.0.0.1:8017") == ("127.0.0.1", 8017)
    assert parse_page_listen("[::1]:80") == ("::1", 80)
    for wrong in ("8017", ":8017", "localhost:", "localhost:x", "localhost:70000"):
        with pytest.raises(BadSetting, match="is not an address with a port"):
            parse_page_listen(wrong)


def test_host_names_of_this_machine() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("", "head", "10.0.0.1", "localhost.example")))
    assert may_see({"host": "[::1]:8017"}, None)


def test_bad_settings_are_one_line(tmp_path: Path) -> None:

    done = subprocess.run(
        (*OFFPEAK, "page", "--listen", "0.0.0.0:8017"), env=ENVIRONMENT, capture_output=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"can be reached from other machines" in done.stderr


def test_idle_connections_keep_no_browser_out(site: PageSite) -> None:
    host, _, port = site.url.removeprefix("http://").rstrip("/").partition(":")
    with ExitStack() as open_:
        idle = [open_.enter_context(socket.create_connection((host, int(port)))) for _ in range(MOST_CONNECTIONS + 60)]
        idle[-1].sendall(b"GET / HTTP/1.1\r\n")
        assert answer(site)[0] == 200
        # The oldest made room.
        idle[0].settimeout(300)
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""

"""The page under connections that are idle or drip, with few files to open."""

import http.client
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from page_site import PageSite, make_snapshot, page_site
from zygote import Zygote

from offpeak.services.bounded_http import REQUEST_S

IDLE = 1020


@pytest.fixture(scope="module")
def site(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    with page_site(zygote, tmp_path_factory.mktemp("limited"), make_snapshot(4, 3), hours=1) as site:
        yield site


def place(site: PageSite) -> tuple[str, int]:
    host, _, port = site.url.removeprefix("http://").rstrip("/").partition(":")
    return host, int(port)


def status(site: PageSite) -> int:
    connection = http.client.HTTPConnection(*place(site), timeout=300)
    connection.request("GET", "/")
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status


@contextmanager
def many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard) if hard != resource.RLIM_INFINITY else count, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("files", [1024, 300])
def test_idle_connections_neither_stop_it_nor_fill_its_log(site: PageSite, files: int) -> None:
    pid = site.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    lines = len(site.log.read_text().splitlines())
    with many_files(IDLE + 1000), ExitStack() as open_:
        for _ in range(IDLE):
            open_.enter_context(socket.create_connection(place(site), timeout=300))
        assert status(site) == 200
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert len(site.log.read_text().splitlines()) - lines < 20


def test_a_header_that_drips_is_hung_up_on(site: PageSite) -> None:
    began = time.monotonic()
    with socket.create_connection(place(site)) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\n")
        dripping.settimeout(0.5)
        closed = False
        while not closed and time.monotonic() < began + 300:
            try:
                dripping.sendall(b"X-Drip: 1\r\n")
                closed = dripping.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                closed = True
    assert closed
    assert time.monotonic() - began > REQUEST_S / 2
    assert status(site) == 200

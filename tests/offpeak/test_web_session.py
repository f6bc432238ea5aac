"""An exchange ends in time as a whole, wherever its server drips."""

import time

import pytest
import requests
from dripping_server import dripping_server

from offpeak.web_session import WebSession, read_body

LIMIT_S = 0.5


@pytest.mark.parametrize("where", ["head", "body", "endless"])
def test_an_answer_that_drips_is_broken_off(where: str) -> None:
    with dripping_server(where) as server:
        begin_s = time.monotonic()
        with (
            pytest.raises(requests.Timeout),
            WebSession() as session,
            session.within(LIMIT_S),
            session.get(server.url, timeout=30, stream=True) as response,
        ):
            read_body(response, most_bytes=1000)
        assert time.monotonic() - begin_s < 15
        server.wait_until_left()


def test_a_proxy_that_drips_is_broken_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping_server("head") as server:
        monkeypatch.setenv("https_proxy", server.url)
        with pytest.raises(requests.Timeout), WebSession() as session, session.within(LIMIT_S):
            session.get("https://prices.invalid/", timeout=30)
        server.wait_until_left()

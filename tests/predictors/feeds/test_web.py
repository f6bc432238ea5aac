"""One GET against a server that fails in every way, and against no server at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import FiniteFloat

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.predictors.feeds.web import AnswerShape, HttpRequest, get, read_json


class Prices(AnswerShape):
    unit: str
    price: tuple[FiniteFloat | None, ...]


def ask(url: str) -> HttpRequest:
    return HttpRequest("test", url, {"key": "the-secret-key"}, {"auth-token": "the-secret-key"}, timeout_s=5.0)


def test_a_body(player, reply):
    player.plays(reply(b"all of it"))
    assert get(ask(f"{player.url}/price")) == b"all of it"
    path, query, headers = player.requests[0]
    assert (path, query, headers["auth-token"]) == ("/price", {"key": "the-secret-key"}, "the-secret-key")


def test_each_fault_has_its_name(player, faults):
    for condition, fault in faults.items():
        player.plays(fault)
        found = get(ask(player.url))
        if isinstance(found, bytes):
            found = read_json("test", found, Prices)
        assert isinstance(found, FeedProblem)
        assert str(found.condition) == condition
        assert "the-secret-key" not in f"{found!r} {found} {found.hint}"


def test_unreachable_web_server_is_reported(closed_url):
    assert get(ask(closed_url)).condition is FeedCondition.REFUSED


def test_no_such_host():
    assert get(ask("http://nowhere.invalid")).condition in {FeedCondition.NO_NETWORK, FeedCondition.HANGING}


def test_a_server_that_speaks_no_tls_is_not_trusted(player):
    assert get(ask(player.url.replace("http:", "https:"))).condition is FeedCondition.UNTRUSTED


def test_an_answer_that_breaks_off(player, reply):
    player.plays(reply(b'{"unit": "EUR', length=5000))
    assert get(ask(player.url)).condition is FeedCondition.UNAVAILABLE


def test_a_redirection_would_take_the_key_along(player, reply):
    player.plays(reply(b"", 302, {"Location": f"{player.url}/elsewhere"}))
    assert get(ask(player.url)).condition is FeedCondition.GARBAGE
    assert len(player.requests) == 1


@given(st.binary(max_size=60))
def test_no_bytes_raise(body):
    assert isinstance(read_json("test", body, Prices), FeedProblem)


@pytest.mark.parametrize(
    "text",
    [
        '{"unit": "EUR", "price": [1',
        '{"unit": "EUR", "price": ["1"]}',
        '{"unit": "EUR", "price": [true]}',
        '{"unit": "EUR", "price": [NaN]}',
        '{"unit": "EUR", "price": [1e999]}',
        '{"unit": null, "price": []}',
        '{"price": []}',
        "[]",
    ],
)
def test_values_are_not_guessed(text):
    assert read_json("test", text.encode(), Prices).condition is FeedCondition.GARBAGE

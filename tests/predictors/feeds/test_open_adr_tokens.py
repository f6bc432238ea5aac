"""Tokens of OAuth2 client credentials at an OpenADR 3 server: fetched once, renewed, refused."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from openadr_vtn import TestVtn, openadr_vtn

from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.predictors.openadr_server import OpenAdrServer, ServerLogin

pytestmark = pytest.mark.quick

CLIENT = ("hpc site", "s%cr&t:")


@pytest.fixture
def vtn() -> Iterator[TestVtn]:
    with openadr_vtn() as server:
        server.client = CLIENT
        server.order("e1", from_s=1_800_000_000, until_s=1_800_003_600, cap_w=1000)
        yield server


@pytest.fixture
def login(tmp_path: Path) -> ServerLogin:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text(CLIENT[1] + "\n")
    return ServerLogin(client_id=CLIENT[0], client_secret=secret)


@pytest.mark.parametrize(("takes_body", "names_tokens"), [(True, True), (False, True), (True, False)])
def test_a_token_is_fetched_once(vtn: TestVtn, login: ServerLogin, takes_body: bool, names_tokens: bool) -> None:
    vtn.takes_body, vtn.names_tokens = takes_body, names_tokens
    server = OpenAdrServer(vtn.url, ServerLogin(**{**vars(login), "scope": "read_all"}))
    assert [list(server.fetch()) for _ in range(3)] == [["e1"]] * 3
    assert server.send_report({"reportName": "r"}) == ""
    assert (vtn.tokens, vtn.scopes) == (["token-0"], ["read_all"])


def test_a_token_is_renewed_before_it_ends_and_when_it_is_refused(vtn: TestVtn, login: ServerLogin) -> None:
    clock = SimpleNamespace(now_s=0.0)
    server = OpenAdrServer(vtn.url, login, clock=lambda: clock.now_s)
    for now_s, tokens in ((0, 1), (2800, 1), (2900, 2)):
        clock.now_s = now_s
        assert list(server.fetch()) == ["e1"]
        assert len(vtn.tokens) == tokens
    vtn.revoke()
    assert list(server.fetch()) == ["e1"]
    assert len(vtn.tokens) == 3
    vtn.revoke()
    assert server.send_report({"reportName": "r"}) == ""
    assert len(vtn.tokens) == 4


def test_refusals_say_what_to_do(vtn: TestVtn, login: ServerLogin, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    problem = OpenAdrServer(vtn.url, ServerLogin(token)).fetch()
    assert isinstance(problem, FeedProblem)
    assert f"token refused: HTTP 401 from {vtn.url[7:].partition('/')[0]}: the token in {token}" in str(problem)
    assert "openadr_client_id" in problem.hint
    assert "token refused" in OpenAdrServer(vtn.url, ServerLogin(token)).send_report({"reportName": "r"})
    vtn.client = (CLIENT[0], "another")
    problem = OpenAdrServer(vtn.url, login).fetch()
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.CLIENT_REFUSED
    assert "secret" in problem.hint
    assert CLIENT[1] not in str(problem)


def test_a_secret_that_others_may_read_is_not_used(vtn: TestVtn, login: ServerLogin) -> None:
    assert login.client_secret
    login.client_secret.chmod(0o644)
    problem = OpenAdrServer(vtn.url, login).fetch()
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.NO_KEY
    assert vtn.asked == 0


def test_no_secret_is_sent_without_encryption_that_the_server_has(vtn: TestVtn, login: ServerLogin) -> None:
    at_vtn = ServerLogin(**{**vars(login), "token_url": f"{vtn.url}/auth/token"})
    problem = OpenAdrServer("https://vtn.invalid/openadr3", at_vtn).fetch()
    assert isinstance(problem, FeedProblem)
    assert problem.condition is FeedCondition.UNTRUSTED
    assert vtn.tokens == []

"""Requests to an OpenADR 3 server: the pages of its events, reports, and the tokens of OAuth2 client credentials.

A server names the address of its tokens at /auth/server (OpenADR 3.1); an older one gives them at /auth/token. A token
is renewed before it ends (RFC 6749, section 4.4), and once more if the server refuses it.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from offpeak.errors import BadInput
from offpeak.machines.credentials import read_secret
from offpeak.predictors.feeds.port import FeedCondition, FeedProblem
from offpeak.predictors.feeds.web import TIMEOUT_S, AnswerShape, HttpRequest, get, post, post_form, read_json
from offpeak.text import counted, printable

Answer = TypeVar("Answer")
SOURCE = "openadr"
PAGE, MOST_PAGES = 50, 200
"""The most events of an answer, by the specification, and the most answers that are read."""
WHOLE_READING = 3
"""So many time limits of one answer the reading of all pages may take."""
LONGEST_NUMBER = 300
"""Digits."""
USUAL_LIFE_S, USED_SHARE = 300, 0.8
"""How long a token holds whose end the server does not tell, and the share of its life after which it is renewed."""
TAKEN = frozenset({200, 201, 409})
"""The statuses of a report that the server has: 409 is that of one that it has already."""
REFUSED_HINT = "does it know openadr_client and the token? The report is sent again later"


@dataclass(frozen=True)
class ServerLogin:
    """A token, or a client's ID and secret with which tokens are fetched, each as a text or its file; None for neither.

    `token_url` is where tokens are fetched, "" for the address that the server names; `scope` is theirs, "" for none.
    """

    token: Path | str | None = field(default=None, repr=False)
    client_id: str | None = None
    client_secret: Path | str | None = field(default=None, repr=False)
    token_url: str = ""
    scope: str = ""


class TokenAnswer(AnswerShape):
    """A token (RFC 6749, section 5.1)."""

    access_token: str
    expires_in: float | None = None


class TokenServer(AnswerShape):
    """Where a server's tokens come from."""

    tokenURL: str  # noqa: N815


@dataclass
class TokenStore:
    """The token of a client at a server, and until when it is used [s of the monotonic clock]."""

    token: str = ""
    until_s: float = -math.inf
    lock: Lock = field(default_factory=Lock)


@lru_cache(maxsize=16)
def token_store(url: str, login: ServerLogin) -> TokenStore:  # noqa: ARG001
    """Return the store that all requests of this process to the server share."""
    return TokenStore()


@dataclass(frozen=True)
class OpenAdrServer:
    """A server, queried with the token in a file, or with tokens that it gives for the credentials of a client."""

    url: str
    login: ServerLogin = ServerLogin()
    timeout_s: float = TIMEOUT_S
    name: str = SOURCE
    clock: Callable[[], float] = time.monotonic

    def fetch(self, query: Mapping[str, str] | None = None) -> dict[str, str] | FeedProblem:
        """Return the text of each event by its id, of all pages. Never raises for what the world does.

        All pages together take at most `WHOLE_READING` time limits of one, so that a slow server holds up nothing.
        """
        found = dict[str, str]()
        received = 0
        until_s = time.monotonic() + WHOLE_READING * self.timeout_s
        for _ in range(MOST_PAGES):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                message = f"{counted(len(found), 'event')} in {WHOLE_READING * self.timeout_s:g} s, and not all"
                return FeedProblem(FeedCondition.HANGING, self.name, message)
            paged = {**(query or {}), "skip": str(received), "limit": str(PAGE)}
            body = replace(self, timeout_s=min(self.timeout_s, left_s))._exchange(get, "events", paged)
            if isinstance(body, FeedProblem):
                return body
            try:
                answer = json.loads(body, parse_int=_whole)
                events = _events_by_id(answer)
            except (ValueError, RecursionError) as error:
                return FeedProblem(FeedCondition.GARBAGE, self.name, printable(str(error)))
            # A server that knows no pages answers with all its events again, but PAGE of them may not be all.
            if not events or (events.keys() == found.keys() and received != PAGE):
                return found
            if events.keys() <= found.keys():
                message = f"the same {counted(len(events), 'event')} again after {received}, and perhaps not all"
                return FeedProblem(FeedCondition.GARBAGE, self.name, message)
            found |= events
            # A server may give fewer events than `limit`.
            received += len(answer)
        message = f"{counted(len(found), 'event')} in {MOST_PAGES} answers, and not all"
        return FeedProblem(FeedCondition.GARBAGE, self.name, message)

    def read_program(self, program_id: str) -> bytes | FeedProblem:
        """Return the text of a programme. Never raises, as `fetch`."""
        return self._exchange(get, f"programs/{program_id}", {})

    def send_report(self, report: Mapping[str, Any]) -> str:
        """Send a report; return why the server has not taken it, "" if it has. Never raises, as `fetch`."""

        def send(request: HttpRequest) -> int | FeedProblem:
            status = post(request, json.dumps(report).encode())
            return FeedProblem(FeedCondition.KEY_REFUSED, self.name, "", status=401) if status == 401 else status

        answer = self._exchange(send, "reports", {})
        if isinstance(answer, FeedProblem):
            return f"{answer}; {answer.hint}"
        return "" if answer in TAKEN else f"{self.name}: HTTP {answer} from {self._host}; {REFUSED_HINT}"

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _exchange(
        self, send: Callable[[HttpRequest], Answer | FeedProblem], resource: str, query: Mapping[str, str]
    ) -> Answer | FeedProblem:
        """Send a request with a token; a refused one is renewed once."""
        renew = False
        while True:
            token = self._token(renew=renew)
            if isinstance(token, FeedProblem):
                return token
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            address = f"{self.url.rstrip('/')}/{resource}"
            answer = send(HttpRequest(self.name, address, query, headers, self.timeout_s))
            if not isinstance(answer, FeedProblem) or answer.status != 401:
                return answer
            if renew or self.login.client_id is None:
                return self._refused_token()
            renew = True

    def _refused_token(self) -> FeedProblem:
        condition = FeedCondition.CLIENT_REFUSED if self.login.client_id else FeedCondition.TOKEN_REFUSED
        file = f" in {self.login.token}" if isinstance(self.login.token, Path) else ""
        what = "a new token" if self.login.client_id else f"the token{file}"
        detail = (
            f"HTTP 401 from {self._host}: {what if self.login.client_id or self.login.token else 'no token is set'}"
        )
        return FeedProblem(condition, self.name, detail, status=401)

    def _token(self, *, renew: bool) -> str | FeedProblem:
        """Return the token, "" without any."""
        login = self.login
        if login.client_id is None:
            if not isinstance(login.token, Path):
                return login.token or ""
            try:
                return login.token.read_text().strip()
            except OSError as problem:
                return FeedProblem(FeedCondition.NO_KEY, self.name, f"{login.token}: {problem.strerror}")
        store = token_store(self.url, login)
        with store.lock:
            if renew or self.clock() >= store.until_s:
                answer = self._fetch_token()
                if isinstance(answer, FeedProblem):
                    return answer
                life_s = USUAL_LIFE_S if answer.expires_in is None else max(answer.expires_in, 0.0)
                store.token, store.until_s = answer.access_token, self.clock() + USED_SHARE * life_s
            return store.token

    def _fetch_token(self) -> TokenAnswer | FeedProblem:
        login = self.login
        if login.client_secret is None:
            return FeedProblem(FeedCondition.NO_KEY, self.name, "the client has no secret")
        try:
            secret = (
                read_secret(login.client_secret).value.decode()
                if isinstance(login.client_secret, Path)
                else login.client_secret
            )
        except (BadInput, UnicodeDecodeError) as problem:
            return FeedProblem(FeedCondition.NO_KEY, self.name, str(problem))
        address = login.token_url or self._token_address()
        if isinstance(address, FeedProblem):
            return address
        if urlsplit(self.url).scheme == "https" != urlsplit(address).scheme:
            return FeedProblem(FeedCondition.UNTRUSTED, self.name, f"{address} would get the secret without encryption")
        request = HttpRequest(self.name, address, {}, timeout_s=self.timeout_s)
        grant = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
        body = post_form(request, {**grant, "client_id": str(login.client_id), "client_secret": secret})
        if isinstance(body, FeedProblem) and body.status in (400, 401):
            # Servers take the credentials in the body, in a header, or both (RFC 6749, section 2.3.1).
            body = post_form(request, grant, (str(login.client_id), secret))
        if isinstance(body, FeedProblem):
            refused = body.status in (400, 401, 403)
            return replace(body, condition=FeedCondition.CLIENT_REFUSED) if refused else body
        return read_json(self.name, body, TokenAnswer)

    def _token_address(self) -> str | FeedProblem:
        """Return where the server gives tokens."""
        base = self.url.rstrip("/")
        body = get(HttpRequest(self.name, f"{base}/auth/server", {}, timeout_s=self.timeout_s))
        if not isinstance(body, FeedProblem):
            found = read_json(self.name, body, TokenServer)
            return found if isinstance(found, FeedProblem) else found.tokenURL
        return f"{base}/auth/token" if 400 <= body.status < 500 else body


def _whole(digits: str) -> int | float:
    """Return a number; one with thousands of digits, which Python does not read as such, is not finite."""
    return int(digits) if len(digits) < LONGEST_NUMBER else math.inf


def _events_by_id(answer: Any) -> dict[str, str]:
    """Return the text of each event; one without an id has one made of its text. Raises ValueError for no list."""
    if not isinstance(answer, list):
        raise ValueError("no list of events")
    texts = [(event, json.dumps(event)) for event in answer]
    return {
        event["id"]
        if isinstance(event, dict) and isinstance(event.get("id"), str) and event["id"]
        else blake2b(text.encode(), digest_size=8).hexdigest(): text
        for event, text in texts
    }

"""A small OpenADR 3 server (VTN): it sends its events, keeps the reports that it gets, and can refuse them or hang.

It takes a report of one name once, also if it hangs then and the client does not learn that. With a client it gives
tokens for the client's credentials, and answers to nothing else.
"""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

PAGE = 50
"""The most events of one answer, by OpenADR 3.0.1."""


@dataclass
class TestVtn:
    """`events` are what it answers; `refuses` is the status that a report gets instead of 201, `hangs`: no answer."""

    __test__ = False

    url: str
    events: list[dict[str, Any]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    refuses: int = 0
    hangs: bool = False
    asked: int = 0
    page: int = PAGE
    """The most events of one of its answers."""
    knows_pages: bool = True
    """Whether it begins where it is told to."""
    client: tuple[str, str] | None = None
    """The ID and secret of its client; None where all may ask."""
    takes_body: bool = True
    """Whether it takes the credentials in the body of a request, or in its header only."""
    names_tokens: bool = True
    """Whether it names the address of its tokens, as OpenADR 3.1 has it."""
    token_life_s: float | None = 3600
    tokens: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)

    def revoke(self) -> None:
        """Accept no token that was given so far."""
        self.tokens[:] = ["" for _ in self.tokens]

    closing: threading.Event = field(default_factory=threading.Event)

    def order(self, event: str, *, from_s: float, until_s: float, cap_w: float) -> None:
        """Order a cap between these times [Unix s]."""
        start = datetime.fromtimestamp(int(from_s), UTC).isoformat().replace("+00:00", "Z")
        self.events.append(
            {
                "id": event,
                "objectType": "EVENT",
                "programID": "flex",
                "eventName": "evening peak",
                "intervalPeriod": {"start": start, "duration": f"PT{int(until_s) - int(from_s)}S"},
                "payloadDescriptors": [{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": "KW"}],
                "intervals": [{"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [cap_w / 1000]}]}],
            }
        )


@contextmanager
def openadr_vtn() -> Iterator[TestVtn]:
    """Run a server on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            vtn.asked += 1
            split = urlsplit(self.path)
            query = {name: int(value) for name, value in parse_qsl(split.query) if value.isdigit()}
            first = query.get("skip", 0) if vtn.knows_pages else 0
            page = vtn.events[first : first + min(query.get("limit", PAGE), vtn.page)]
            if split.path == "/openadr3/auth/server" and vtn.names_tokens:
                self._answer(200, {"tokenURL": f"{vtn.url}/auth/token"})
            elif not self._is_allowed():
                self._answer(401, {"title": "Unauthorized", "status": 401})
            else:
                self._answer(200 if split.path == "/openadr3/events" else 404, page)

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/openadr3/auth/token":
                self._give_token(dict(parse_qsl(text.decode())))
                return
            if not self._is_allowed():
                self._answer(401, {"title": "Unauthorized", "status": 401})
                return
            body = json.loads(text)
            status = vtn.refuses or (201 if self.path == "/openadr3/reports" else 404)
            if status == 201 and any(report["reportName"] == body["reportName"] for report in vtn.reports):
                status = 409
            if status == 201:
                vtn.reports.append(body)
            self._answer(status, body)

        def _is_allowed(self) -> bool:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            return vtn.client is None or (bool(token) and token in vtn.tokens)

        def _give_token(self, form: dict[str, str]) -> None:
            credentials = (form.get("client_id", ""), form.get("client_secret", "")) if vtn.takes_body else ("", "")
            header = self.headers.get("Authorization", "")
            if header.startswith("Basic "):
                user, _, password = b64decode(header.removeprefix("Basic ")).decode().partition(":")
                credentials = unquote_plus(user), unquote_plus(password)
            if credentials != vtn.client or form.get("grant_type") != "client_credentials":
                self._answer(401, {"error": "invalid_client"})
                return
            vtn.scopes.append(form.get("scope", ""))
            vtn.tokens.append(f"token-{len(vtn.tokens)}")
            life = {} if vtn.token_life_s is None else {"expires_in": vtn.token_life_s}
            self._answer(200, {"access_token": vtn.tokens[-1], "token_type": "Bearer", **life})

        def _answer(self, status: int, answer: list[Any] | Mapping[str, Any]) -> None:
            if vtn.hangs:
                vtn.closing.wait(300)
                return
            text = json.dumps(answer).encode()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        vtn = TestVtn(f"http://127.0.0.1:{server.server_port}/openadr3")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield vtn
        vtn.closing.set()
        server.shutdown()
        thread.join()

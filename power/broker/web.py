"""The broker over HTTP: a token in, JSON in and out, bounded in size, time and number. No TLS: for loopback."""

import hmac
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from offpeak.errors import BadInput, OffpeakError
from offpeak.machines.credentials import Secret
from power.broker.ask_sites import PAGE
from power.broker.errors import NoSite, NotKnown, SiteRefused, UnknownKey
from power.broker.few_threads import FewThreads, PatientHandler
from power.broker.questions import Questions
from power.broker.signed import ANSWER, REQUEST, Requests, checked_stamp

MOST_BYTES = 2 * 1024 * 1024
PATIENCE_S = 10.0
STATUS = (
    (UnknownKey, HTTPStatus.NOT_FOUND),
    (NoSite, HTTPStatus.CONFLICT),
    (NotKnown, HTTPStatus.SERVICE_UNAVAILABLE),
    (SiteRefused, HTTPStatus.CONFLICT),
    (BadInput, HTTPStatus.BAD_REQUEST),
)


class WebServer(FewThreads, HTTPServer):
    """Answers `questions` to who shows the token, and signed snapshots to who has the secret, if there is one."""

    def __init__(self, place: tuple[str, int], questions: Questions, token: Secret, secret: Secret | None) -> None:
        self.questions, self.token, self.secret = questions, token, secret
        self.snapshot_requests = Requests()
        super().__init__(place, Answering)


class Answering(PatientHandler, BaseHTTPRequestHandler):
    """One question."""

    server: WebServer
    timeout = PATIENCE_S
    server_version, sys_version = "offpeak", ""

    def do_GET(self) -> None:
        """Answer /v1/sites, /v1/jobs/KEY and, signed, /v1/snapshot."""
        self.request_has_arrived()
        if self.path == PAGE:
            self._snapshot()
        elif self.path == "/v1/sites":
            self._answer(self.server.questions.sites)
        else:
            self._of_job(self.server.questions.standing)

    def do_DELETE(self) -> None:
        """Cancel /v1/jobs/KEY."""
        self.request_has_arrived()
        self._of_job(self.server.questions.cancel)

    def do_POST(self) -> None:
        """Answer /v1/choose and /v1/submit."""
        asked = {"/v1/choose": self.server.questions.choose, "/v1/submit": self.server.questions.submit}.get(self.path)
        if asked is None:
            self._say(HTTPStatus.NOT_FOUND, {"error": f"{self.path}: no such page", "hint": ""})
        else:
            self._answer(lambda: asked(self._body()))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what is done stands in the ledger."""

    def _of_job(self, answer: Callable[[str], dict[str, Any]]) -> None:
        folder, _, key = self.path.rpartition("/")
        if folder != "/v1/jobs":
            self._say(HTTPStatus.NOT_FOUND, {"error": f"{self.path}: no such page", "hint": ""})
        else:
            self._answer(lambda: answer(key))

    def _answer(self, answer: Callable[[], dict[str, Any]]) -> None:
        if not self._may_ask():
            self._say(HTTPStatus.UNAUTHORIZED, {"error": "no token, or the wrong one", "hint": "Authorization: Bearer"})
            return
        try:
            self._say(HTTPStatus.OK, answer())
        except OffpeakError as problem:
            status = next((each for kind, each in STATUS if isinstance(problem, kind)), HTTPStatus.BAD_GATEWAY)
            self._say(status, {"error": str(problem), "hint": problem.hint})

    def _may_ask(self) -> bool:
        shown = self.headers.get("Authorization", "").encode(errors="replace")
        return hmac.compare_digest(shown, b"Bearer " + self.server.token.value)

    def _body(self) -> object:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            raise BadInput("the body is too long, or of unknown length", hint=f"{MOST_BYTES} bytes are the most")
        try:
            body = self.rfile.read(int(length))
            self.request_has_arrived()
            return json.loads(body)
        except (ValueError, RecursionError):
            raise BadInput("the body is no JSON", hint="docs/reference/broker.md shows one") from None

    def _snapshot(self) -> None:
        secret = self.server.secret
        if secret is None:
            self._say(HTTPStatus.NOT_FOUND, {"error": "no snapshots here", "hint": "secret_file below [broker]"})
            return
        try:
            stamp = checked_stamp(secret, REQUEST, dict(self.headers), f"GET {PAGE}".encode())
            self.server.snapshot_requests.check(stamp, time.time())
            body = self.server.questions.snapshot(stamp.site)
        except (OffpeakError, OSError) as problem:
            self._say(HTTPStatus.FORBIDDEN, {"error": str(problem), "hint": getattr(problem, "hint", "")})
            return
        self._send(HTTPStatus.OK, body, stamp.headers(secret, ANSWER, body))

    def _say(self, status: HTTPStatus, said: dict[str, Any]) -> None:
        self._send(status, json.dumps(said).encode() + b"\n", {})

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers.items()):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

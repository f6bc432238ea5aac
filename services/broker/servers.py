"""The daemon of the broker: a Unix socket for `offpeak submit --dry-run`, HTTP for portals, and the entry of
`offpeak broker`.

Both answer each client in a thread of its own, with a bound on the number of threads. A request has to arrive as a
whole within some seconds. If all threads are taken, the server disconnects the oldest client that is still sending its
request, of the address with most clients.

The socket takes one line of JSON and submits nothing. HTTP takes a token and JSON, bounded in size, time and number;
it has no TLS, so it is for loopback.
"""

import asyncio
import hmac
import io
import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from offpeak.errors import BadInput, BadSetting, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.log_lines import begin_log
from offpeak.machines.credentials import Secret, read_secret
from offpeak.plugin.federation.metaschedule import need_or_tools
from offpeak.process import login_name
from offpeak.services.broker.client import MOST_CHOICE_BYTES, SOCKET_NAME
from offpeak.services.broker.federation import Federation, make_broker_job, make_choice, make_preferences
from offpeak.services.broker.placement_cycle import PlacementCycle
from offpeak.services.broker.portal import BrokerPortal
from offpeak.services.broker.signatures import ANSWER, REQUEST, ReplayGuard, check_stamp
from offpeak.services.broker.site_commands import NoSite, NotKnown, SiteRefused, UnknownKey
from offpeak.services.broker.site_poller import LOG, PAGE, Poller
from offpeak.services.broker.submission import Broker, make_broker
from offpeak.services.unix_socket import bound_socket, remove_socket
from offpeak.settings.broker import BrokerSettings
from offpeak.settings.table import Settings

MOST_CLIENTS = 32
MAKE_ROOM_S = 1.0


class BoundedThreads(ThreadingMixIn):
    """Bounds the number of clients. Mixed into a server of socketserver."""

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        self._lock = threading.Lock()
        self._sending: dict[socket.socket, str] = {}
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or disconnect if all clients are being answered."""
        if not self._places.acquire(blocking=False):
            self._hang_up_on_one()
            if not self._places.acquire(timeout=MAKE_ROOM_S):
                self.shutdown_request(request)  # type: ignore[attr-defined]
                return
        with self._lock:
            self._sending[request] = str(client_address[0]) if client_address else ""
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the place for the next client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_arrived(request)
            self._places.release()

    def has_arrived(self, request: socket.socket) -> None:
        """Record that a client has sent its whole request: it keeps its place until it is answered."""
        with self._lock:
            self._sending.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about clients that disconnect."""

    def _hang_up_on_one(self) -> None:
        with self._lock:
            most = Counter(self._sending.values()).most_common(1)
            oldest = next((client for client, address in self._sending.items() if most and address == most[0][0]), None)
            if oldest is not None:
                del self._sending[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)


class PatientHandler(StreamRequestHandler):
    """Reads a request that arrives as a whole within `timeout` seconds, which a subclass sets; else TimeoutError."""

    def setup(self) -> None:
        """Start the timeout."""
        super().setup()
        assert self.timeout is not None
        self.rfile.close()
        self.rfile = io.BufferedReader(_UntilDeadline(self.connection, time.monotonic() + self.timeout))

    def request_has_arrived(self) -> None:
        """Keep the place until the request is answered; each part of the answer has `timeout` seconds."""
        self.connection.settimeout(self.timeout)
        self.server.has_arrived(self.request)  # type: ignore[attr-defined]


class _UntilDeadline(io.RawIOBase):
    def __init__(self, connection: socket.socket, until_s: float) -> None:
        self._connection, self._until_s = connection, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


CHOICE_PATIENCE_S = 10.0


@checked(frozen=True, config={"extra": "forbid"})
class ChoiceRequest:
    """A request for the site of a job. The broker answers only for its own file of `sites` and age of reports."""

    sites: str
    stale_s: int
    script: str
    arguments: tuple[str, ...]
    goal: str | None
    latest_end_s: int | None
    cores: Annotated[int, Field(ge=1)] | None
    limit_s: Annotated[int, Field(ge=1)] | None
    application: str | None
    data: str | None = None
    data_at: str | None = None


class ChoiceServer(BoundedThreads, UnixStreamServer):
    """Listens in the state folder until it is closed; errors as `bound_socket`. `federation` gives the present one."""

    def __init__(self, folder: Path, settings: BrokerSettings, federation: Callable[[], Federation]) -> None:
        self.settings, self.federation, self._path = settings, federation, folder / SOCKET_NAME
        listener = bound_socket(self._path)
        super().__init__(str(self._path), _ChoiceHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._number = self._path.stat().st_ino

    def server_close(self) -> None:
        """Remove the socket."""
        super().server_close()
        remove_socket(self._path, self._number)


class _ChoiceHandler(PatientHandler):
    """One request. The reply is empty if the command has to poll the sites itself."""

    server: ChoiceServer
    timeout = CHOICE_PATIENCE_S

    def handle(self) -> None:
        line = self.rfile.readline(MOST_CHOICE_BYTES + 1)
        self.request_has_arrived()
        try:
            reply = self._reply(TypeAdapter(ChoiceRequest).validate_json(line))
        except BadInput as problem:
            reply = {"error": str(problem), "hint": problem.hint}
        except (OffpeakError, ValidationError):
            reply = {}
        self.wfile.write(json.dumps(reply).encode() + b"\n")

    def _reply(self, request: ChoiceRequest) -> dict[str, Any]:
        settings = self.server.settings
        if (request.sites, request.stale_s) != (str(settings.sites.resolve()), settings.stale_s):
            return {}
        federation = self.server.federation()
        if not set(federation.grid.names) <= set(federation.replies):
            return {}
        of_request = ("sites", "stale_s", "script", "arguments")
        options = {key: value for key, value in vars(request).items() if key not in of_request}
        preferences = make_preferences(settings.policy, **options)
        job = make_broker_job(request.script, "", request.arguments, preferences=preferences, grid=federation.grid)
        return {"choice": make_choice(federation, job)}


MOST_BODY_BYTES = 2 * 1024 * 1024
WEB_PATIENCE_S = 10.0
STATUS = (
    (UnknownKey, HTTPStatus.NOT_FOUND),
    (NoSite, HTTPStatus.CONFLICT),
    (NotKnown, HTTPStatus.SERVICE_UNAVAILABLE),
    (SiteRefused, HTTPStatus.CONFLICT),
    (BadInput, HTTPStatus.BAD_REQUEST),
)


class WebServer(BoundedThreads, HTTPServer):
    """Answers portals with the token, and gives signed snapshots to brokers with the secret, if there is one."""

    def __init__(self, place: tuple[str, int], questions: BrokerPortal, token: Secret, secret: Secret | None) -> None:
        self.questions, self.token, self.secret = questions, token, secret
        self.snapshot_requests = ReplayGuard()
        super().__init__(place, PortalHandler)


class PortalHandler(PatientHandler, BaseHTTPRequestHandler):
    """One request."""

    server: WebServer
    timeout = WEB_PATIENCE_S
    server_version, sys_version = "offpeak", ""

    def do_GET(self) -> None:
        """Answer /v1/sites, /v1/jobs/KEY and, signed, /v1/snapshot."""
        self.request_has_arrived()
        if self.path == PAGE:
            self._snapshot()
        elif self.path == "/v1/sites":
            self._answer(self.server.questions.sites)
        else:
            self._of_job(self.server.questions.job_state)

    def do_DELETE(self) -> None:
        """Cancel /v1/jobs/KEY."""
        self.request_has_arrived()
        self._of_job(self.server.questions.cancel)

    def do_POST(self) -> None:
        """Answer /v1/choose and /v1/submit."""
        answer = {"/v1/choose": self.server.questions.choose, "/v1/submit": self.server.questions.submit}.get(self.path)
        if answer is None:
            self._say(HTTPStatus.NOT_FOUND, {"error": f"{self.path}: no such page", "hint": ""})
        else:
            self._answer(lambda: answer(self._body()))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the ledger records all orders."""

    def _of_job(self, answer: Callable[[str], dict[str, Any]]) -> None:
        folder, _, key = self.path.rpartition("/")
        if folder != "/v1/jobs":
            self._say(HTTPStatus.NOT_FOUND, {"error": f"{self.path}: no such page", "hint": ""})
        else:
            self._answer(lambda: answer(key))

    def _answer(self, answer: Callable[[], dict[str, Any]]) -> None:
        shown = self.headers.get("Authorization", "").encode(errors="replace")
        if not hmac.compare_digest(shown, b"Bearer " + self.server.token.value):
            self._say(HTTPStatus.UNAUTHORIZED, {"error": "no token, or the wrong one", "hint": "Authorization: Bearer"})
            return
        try:
            self._say(HTTPStatus.OK, answer())
        except OffpeakError as problem:
            status = next((code for kind, code in STATUS if isinstance(problem, kind)), HTTPStatus.BAD_GATEWAY)
            self._say(status, {"error": str(problem), "hint": problem.hint})

    def _body(self) -> object:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            raise BadInput("the body is too long, or of unknown length", hint=f"{MOST_BODY_BYTES} bytes are the most")
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
            stamp = check_stamp(secret, REQUEST, dict(self.headers), f"GET {PAGE}".encode())
            self.server.snapshot_requests.check(stamp, time.time())
            body = self.server.questions.snapshot(stamp.site)
        except (OffpeakError, OSError) as problem:
            self._say(HTTPStatus.FORBIDDEN, {"error": str(problem), "hint": getattr(problem, "hint", "")})
            return
        self._send(HTTPStatus.OK, body, stamp.headers(secret, ANSWER, body))

    def _say(self, status: HTTPStatus, reply: dict[str, Any]) -> None:
        self._send(status, json.dumps(reply).encode() + b"\n", {})

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers.items()):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


LAST_SUBMISSION_S = 45.0
"""The daemon waits so long for submissions in progress when it ends; the next start looks for later ones."""


def run_broker(settings: Settings, listen: str) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. Raises BadInput for what cannot be used."""
    begin_log("%(asctime)s %(levelname)s %(message)s")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"--listen {listen}: is no address with a port", hint="write it like 127.0.0.1:8450")
    place, broker = (host, int(port)), settings.broker
    if broker.token_file is None:
        hint = "(umask 077; openssl rand -hex 32 >FILE), and name it: token_file below [broker]"
        raise BadSetting("broker.token_file: is not set", hint=hint)
    token = read_secret(broker.token_file)
    secret = None if broker.secret_file is None else read_secret(broker.secret_file)
    ledger = Ledger(settings.ledger)
    try:
        poller = Poller(broker, ledger, socket=settings.agent.socket, state_folder=settings.agent.state_folder)
        ledger.ready()
        if broker.policy == "mcmf":
            need_or_tools()
        questions = BrokerPortal(poller, broker, ledger, settings.agent.socket)
        with _bind(place, questions, (token, secret)) as server, _serve_choices(questions, settings.agent.state_folder):
            threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
            LOG.info("listens at %s:%d in mode %s", *server.server_address[:2], broker.mode)
            asyncio.run(_poll(poller, lambda: make_cycle(settings, poller, ledger)))
            server.shutdown()
    finally:
        lost = ledger.close()
    return 1 if lost else 0


def _bind(place: tuple[str, int], questions: BrokerPortal, secrets: tuple[Secret, Secret | None]) -> WebServer:
    try:
        return WebServer(place, questions, *secrets)
    except OSError as problem:
        hint = "--listen names another place; is a broker running already?"
        raise OffpeakError(f"{place[0]}:{place[1]}: {problem.strerror}", hint=hint) from None


@contextmanager
def _serve_choices(questions: BrokerPortal, state_folder: Path) -> Iterator[None]:
    """Answer dry runs of `offpeak submit` until the block ends; without a usable socket they read stored reports."""
    try:
        server = ChoiceServer(state_folder, questions.settings, questions.federation)
    except OffpeakError as problem:
        LOG.warning("offpeak submit --dry-run is not answered here: %s", problem)
        yield
        return
    with server:
        threading.Thread(target=server.serve_forever, name="choosing", daemon=True).start()
        yield
        server.shutdown()


def make_cycle(settings: Settings, poller: Poller, ledger: Ledger) -> PlacementCycle:
    """Return the cycles, which submit as this account."""

    def broker_of(federation: Federation) -> Broker:
        return make_broker(settings.broker, federation, ledger, by=login_name(), agent_socket=settings.agent.socket)

    return PlacementCycle(settings.broker, poller, ledger, broker_of)


async def _poll(poller: Poller, make_cycles: Callable[[], PlacementCycle]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    polling, pruning = asyncio.create_task(poller.run()), asyncio.create_task(poller.prune())
    cycles = make_cycles()
    placing = asyncio.create_task(cycles.run())
    await asyncio.wait({polling, placing, asyncio.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
    cycles.end()
    await asyncio.wait({placing}, timeout=LAST_SUBMISSION_S)
    for task in (polling, pruning, placing):
        task.cancel()
    if not ended.is_set():
        await asyncio.gather(polling, placing)

"""The daemon of the broker: a Unix socket for `offpeak submit --dry-run`, HTTP for portals, and the entry of
`offpeak broker`.

Both bound the number of clients. A request has to arrive as a whole within some seconds. If all places are taken, the
server disconnects the oldest client that is still sending its request.

The socket takes one line of JSON and submits nothing. HTTP takes a token and JSON, bounded in size, time and number;
it has no TLS, so it is for loopback.
"""

import asyncio
import hmac
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offpeak.errors import BadInput, BadSetting, OffpeakError
from offpeak.ledger.ledger import Ledger
from offpeak.log_lines import begin_log
from offpeak.machines.credentials import Secret, read_secret
from offpeak.plugin.federation.metaschedule import need_or_tools
from offpeak.process import login_name
from offpeak.services.bounded_http import BoundedProtocol
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
ONE_REQUEST = {"Connection": "close"}
"""A connection is for one request: the next client gets its place."""
END_S = 2
"""The time for which the server waits for its clients when it ends."""
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


class ChoiceServer:
    """Listens in the state folder from its creation on; errors as `bound_socket`. `federation` gives the present one.

    A request has to arrive as a whole in time. A client too many takes the place of the oldest one whose request has
    not arrived.
    """

    def __init__(self, folder: Path, settings: BrokerSettings, federation: Callable[[], Federation]) -> None:
        self._settings, self._federation, self._path = settings, federation, folder / SOCKET_NAME
        self._listener = bound_socket(self._path)
        self._number = self._path.stat().st_ino
        self._clients = 0
        self._sending: dict[asyncio.StreamWriter, None] = {}

    async def serve(self) -> None:
        """Answer until cancelled."""
        server = await asyncio.start_unix_server(self._serve, sock=self._listener, limit=MOST_CHOICE_BYTES)
        try:
            await server.serve_forever()
        finally:
            server.close()

    def close(self) -> None:
        """Remove the socket."""
        self._listener.close()
        remove_socket(self._path, self._number)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request. The reply is empty if the command has to poll the sites itself."""
        if self._clients >= MOST_CLIENTS:
            oldest = next(iter(self._sending), writer)
            self._sending.pop(oldest, None)
            oldest.transport.abort()
            if oldest is writer:
                return
        self._clients += 1
        self._sending[writer] = None
        try:
            async with asyncio.timeout(CHOICE_PATIENCE_S):
                try:
                    line = await reader.readline()
                except ValueError:
                    line = b"too long"
            self._sending.pop(writer, None)
            reply = await asyncio.to_thread(self._reply, line)
            writer.write(json.dumps(reply).encode() + b"\n")
            async with asyncio.timeout(CHOICE_PATIENCE_S):
                await writer.drain()
        except (TimeoutError, OSError):
            writer.transport.abort()
        finally:
            self._clients -= 1
            self._sending.pop(writer, None)
            writer.close()

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = TypeAdapter(ChoiceRequest).validate_json(line)
            if (request.sites, request.stale_s) != (str(self._settings.sites.resolve()), self._settings.stale_s):
                return {}
            federation = self._federation()
            if not set(federation.grid.names) <= set(federation.replies):
                return {}
            of_request = ("sites", "stale_s", "script", "arguments")
            options = {key: value for key, value in vars(request).items() if key not in of_request}
            preferences = make_preferences(self._settings.policy, **options)
            job = make_broker_job(request.script, "", request.arguments, preferences=preferences, grid=federation.grid)
            return {"choice": make_choice(federation, job)}
        except BadInput as problem:
            return {"error": str(problem), "hint": problem.hint}
        except (OffpeakError, ValidationError):
            return {}


MOST_BODY_BYTES = 2 * 1024 * 1024
STATUS = (
    (UnknownKey, HTTPStatus.NOT_FOUND),
    (NoSite, HTTPStatus.CONFLICT),
    (NotKnown, HTTPStatus.SERVICE_UNAVAILABLE),
    (SiteRefused, HTTPStatus.CONFLICT),
    (BadInput, HTTPStatus.BAD_REQUEST),
)


class PortalProtocol(BoundedProtocol):
    """A connection of a portal or of another broker: its request has to arrive as a whole."""

    most_connections = MOST_CLIENTS
    awaits_body = True


def portal_app(questions: BrokerPortal, token: Secret, secret: Secret | None) -> Starlette:
    """Answer portals with the token, and give signed snapshots to brokers with the secret, if there is one."""
    snapshot_requests = ReplayGuard()

    async def answer(request: Request) -> Response:
        path, folder, key = request.url.path, *request.url.path.rpartition("/")[::2]
        if request.method == "GET" and path == PAGE:
            return await run_in_threadpool(snapshot, dict(request.headers))
        of_job = {"GET": questions.job_state, "DELETE": questions.cancel}.get(request.method)
        of_body = {"/v1/choose": questions.choose, "/v1/submit": questions.submit}.get(path)
        find: Callable[[], dict[str, Any]]
        if request.method == "GET" and path == "/v1/sites":
            find = questions.sites
        elif of_job is not None and folder == "/v1/jobs":
            find = partial(of_job, key)
        elif request.method != "POST" or of_body is None:
            return _reply(HTTPStatus.NOT_FOUND, {"error": f"{path}: no such page", "hint": ""})
        shown = request.headers.get("authorization", "").encode(errors="replace")
        if not hmac.compare_digest(shown, b"Bearer " + token.value):
            return _reply(
                HTTPStatus.UNAUTHORIZED, {"error": "no token, or the wrong one", "hint": "Authorization: Bearer"}
            )
        try:
            if request.method == "POST" and of_body is not None:
                find = partial(of_body, await _body(request))
            return _reply(HTTPStatus.OK, await run_in_threadpool(find))
        except OffpeakError as problem:
            status = next((code for kind, code in STATUS if isinstance(problem, kind)), HTTPStatus.BAD_GATEWAY)
            return _reply(status, {"error": str(problem), "hint": problem.hint})

    def snapshot(headers: dict[str, str]) -> Response:
        if secret is None:
            hint = "secret_file below [broker]"
            return _reply(HTTPStatus.NOT_FOUND, {"error": "no snapshots here", "hint": hint})
        try:
            stamp = check_stamp(secret, REQUEST, headers, f"GET {PAGE}".encode())
            snapshot_requests.check(stamp, time.time())
            body = questions.snapshot(stamp.site)
        except (OffpeakError, OSError) as problem:
            return _reply(HTTPStatus.FORBIDDEN, {"error": str(problem), "hint": getattr(problem, "hint", "")})
        headers = stamp.headers(secret, ANSWER, body) | ONE_REQUEST
        return Response(body, headers=headers, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])


async def _body(request: Request) -> object:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
        raise BadInput("the body is too long, or of unknown length", hint=f"{MOST_BODY_BYTES} bytes are the most")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise BadInput("the body is no JSON", hint="docs/reference/broker.md shows one") from None


def _reply(status: HTTPStatus, reply: dict[str, Any]) -> Response:
    return Response(json.dumps(reply) + "\n", status, ONE_REQUEST, media_type="application/json")


@contextmanager
def serve_portals(place: tuple[str, int], app: Starlette) -> Iterator[tuple[str, int]]:
    """Answer portals at that place, in a thread of its own, until the block ends; yields host and port."""
    try:
        listener = socket.create_server(place)
    except OSError as problem:
        hint = "--listen names another place; is a broker running already?"
        raise OffpeakError(f"{place[0]}:{place[1]}: {problem.strerror}", hint=hint) from None
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        lifespan="off",
        server_header=False,
        ws="none",
        http=PortalProtocol,
        loop="asyncio",
        timeout_graceful_shutdown=END_S,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="web", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


LAST_SUBMISSION_S = 45.0
"""The daemon waits so long for submissions in progress when it ends; the next start looks for later ones."""


def run_broker(settings: Settings, listen: str) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. Raises BadInput for what cannot be used."""
    begin_log("%(asctime)s %(levelname)s %(message)s")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"--listen {listen}: is not an address with a port", hint="write it like 127.0.0.1:8450")
    place, broker = (host, int(port)), settings.broker
    if broker.token_file is None:
        hint = "(umask 077; openssl rand -hex 32 >FILE), and name it: token_file below [broker]"
        raise BadSetting("broker.token_file: is not set", hint=hint)
    token = read_secret(broker.token_file)
    secret = None if broker.secret_file is None else read_secret(broker.secret_file)
    ledger = Ledger(settings.ledger)

    def broker_of(federation: Federation) -> Broker:
        return make_broker(broker, federation, ledger, by=login_name(), agent_socket=settings.agent.socket)

    try:
        poller = Poller(broker, ledger, socket=settings.agent.socket, state_folder=settings.agent.state_folder)
        ledger.ready()
        if broker.policy == "mcmf":
            need_or_tools()
        questions = BrokerPortal(poller, broker, ledger, settings.agent.socket)
        with serve_portals(place, portal_app(questions, token, secret)) as listens:
            LOG.info("listens at %s:%d in mode %s", *listens, broker.mode)
            choices = None
            try:
                choices = ChoiceServer(settings.agent.state_folder, questions.settings, questions.federation)
            except OffpeakError as problem:
                # Without a usable socket dry runs of `offpeak submit` read stored reports.
                LOG.warning("offpeak submit --dry-run is not answered here: %s", problem)
            try:
                asyncio.run(_poll(poller, choices, partial(PlacementCycle, broker, poller, ledger, broker_of)))
            finally:
                if choices is not None:
                    choices.close()
    finally:
        lost = ledger.close()
    return 1 if lost else 0


async def _poll(poller: Poller, choices: ChoiceServer | None, make_cycles: Callable[[], PlacementCycle]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    polling = asyncio.create_task(poller.run())
    beside = [asyncio.create_task(poller.prune())]
    if choices is not None:
        beside.append(asyncio.create_task(choices.serve()))
    cycles = make_cycles()
    placing = asyncio.create_task(cycles.run())
    await asyncio.wait({polling, placing, asyncio.create_task(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
    cycles.end()
    await asyncio.wait({placing}, timeout=LAST_SUBMISSION_S)
    for task in (polling, placing, *beside):
        task.cancel()
    if not ended.is_set():
        await asyncio.gather(polling, placing)

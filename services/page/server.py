"""The server of the status page: the page itself, its stream of events, and the metrics.

It changes nothing, and passes the sweeps of collectors on to the agent, which checks them.

Connections are bounded in number and in time: idle and slow ones keep no browser out. The server runs until a signal
ends it.
"""

import asyncio
import json
import ssl
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import typer
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from offpeak.errors import BadSetting, OffpeakError
from offpeak.machines.credentials import Secret, read_secret
from offpeak.services.agent.requests import SWEEP
from offpeak.services.agent.status import AgentSilent, exchange
from offpeak.services.bounded_http import REQUEST_S, BoundedProtocol
from offpeak.services.page.access import COOKIE, HEADERS, check_page_listen, is_token, may_see, parse_page_listen
from offpeak.services.page.event_stream import MOST_FOLLOWERS, Followers, PageReader
from offpeak.services.page.metrics import Metrics
from offpeak.settings.table import Settings

MOST_SWEEP_BYTES = 800_000
"""The largest post of a collector: some 4,000 readings."""
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
PLOTLY = "plotly.min.js"
REFUSED = "no token, or the wrong one: open /?token=TOKEN once, or show it as Authorization: Bearer TOKEN\n"
NOT_HERE = "this page is for this machine only: open it as localhost, or give it a token (token_file below [page])\n"

MakeMetrics = Callable[[], tuple[bytes, str]]
"""Gives the metrics and their content type; it waits for the agent."""


class Guarded:
    """Lets in users who may see the page, and collectors, whose tokens the agent checks; it restricts browsers."""

    def __init__(self, app: ASGIApp, token: Secret | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((n.lower().encode(), v.encode()) for n, v in HEADERS)]
            await send(message)

        await self._answering(scope)(scope, receive, send_guarded)

    def _answering(self, scope: Scope) -> ASGIApp:
        request = Request(scope)
        if scope["path"].startswith("/collectors/") or may_see(Headers(scope=scope), self._token):
            return self._app
        if self._token is not None and is_token(request.query_params.get("token", ""), self._token):
            # Keep the token in a cookie, so that it does not stay in the address.
            token = self._token
            response = RedirectResponse(request.url.path, status_code=303)
            secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, token.value.decode(), httponly=True, samesite="strict", secure=secure)
            return response
        if self._token is None:
            return PlainTextResponse(NOT_HERE, status_code=403)
        return PlainTextResponse(REFUSED, status_code=401, headers={"WWW-Authenticate": "Bearer"})


def page_app(followers: Followers, measure: MakeMetrics, token: Secret | None, agent: Path) -> ASGIApp:
    """Return the application. `agent` is the agent's socket."""

    async def events(_: Request) -> Response:
        if followers.count >= MOST_FOLLOWERS:
            return PlainTextResponse("too many look already\n", status_code=503)
        return StreamingResponse(
            followers.follow(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def metrics(_: Request) -> Response:
        text, kind = await run_in_threadpool(measure)
        return Response(text, media_type=kind)

    async def collect(request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        order = {"tell": SWEEP, "collector": request.path_params["name"], "token": token}
        try:
            # Only a collector may send a large body.
            await run_in_threadpool(exchange, agent, order)
            async with asyncio.timeout(REQUEST_S):
                body = await _read_body(request)
            if body is None:
                return _refusal(413, f"more than {MOST_SWEEP_BYTES:,} bytes: let two collectors read these devices")
            reply = await run_in_threadpool(exchange, agent, {**order, "sweep": json.loads(body)})
        except (AgentSilent, TimeoutError) as problem:
            return _refusal(503, str(problem) or "the sweep did not arrive in time")
        except OffpeakError as problem:
            return _refusal(403, str(problem))
        except (ValueError, RecursionError):
            return _refusal(400, "the sweep is no JSON")
        status = {"counted": 200, "refused": 409}.get(str(reply.get("sweep")), 503)
        return PlainTextResponse("counted\n") if status == 200 else _refusal(status, str(reply.get("why")))

    routes = [
        Route("/collectors/{name}", collect, methods=["POST"]),
        Route("/", lambda _: _file("page.html")),
        Route("/events", events),
        Route("/metrics", metrics),
        Route("/static/{name}", lambda request: _file(request.path_params["name"])),
    ]
    return Guarded(Starlette(routes=routes), token)


async def _read_body(request: Request) -> bytes | None:
    """Return the body, None if it is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_SWEEP_BYTES:
            return None
    return bytes(body)


def _refusal(status: int, why: str) -> Response:
    return JSONResponse({"detail": why}, status_code=status)


def _file(name: str) -> Response:
    path = plotly_script() if name == PLOTLY else _own_file(name)
    if path is None:
        return PlainTextResponse("no such page\n", status_code=404)
    # Browsers compare a cached file by its tag, so that no one sees the old page after an update.
    return FileResponse(path, media_type=KINDS[path.suffix], headers={"Cache-Control": "no-cache"})


def _own_file(name: str) -> Path | None:
    folder = Path(str(files("offpeak.services.page")))
    return next((file for file in folder.iterdir() if file.name == name and file.suffix in KINDS), None)


def plotly_script() -> Path:
    """Return the script in plotly's wheel, without the seconds that importing it takes."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("plotly")
    return Path(found.origin).parent / "package_data" / PLOTLY


BACKLOG = 64
KEEP_ALIVE_S = 5
PATIENCE_S = 2
"""The time for which the server waits for followers when it ends."""


def run_page(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code. Raises BadInput for settings that cannot be used."""
    token = read_secret(settings.page.token_file) if settings.page.token_file else None
    host, port = parse_page_listen(settings.page.listen)
    check_page_listen(host, token)
    if settings.page.certificate:
        certificate = settings.page.certificate
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            ssl.create_default_context().load_cert_chain(certificate, settings.page.key, password="")
        except OSError as problem:
            hint = "both are PEM files, the key has no passphrase, and the page's user may read them"
            raise BadSetting(f"page.certificate: {certificate}: {problem.strerror or problem}", hint=hint) from None
    followers, metrics = Followers(lambda: PageReader(settings).read), Metrics(settings)
    config = uvicorn.Config(
        page_app(followers, metrics.text, token, settings.agent.socket),
        host=host,
        port=port,
        # An access log would hold the token of a user who opens the page for the first time.
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        ws="none",
        http=BoundedProtocol,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        loop="asyncio",
        timeout_graceful_shutdown=PATIENCE_S,
        ssl_certfile=settings.page.certificate,
        ssl_keyfile=settings.page.key,
    )
    address = f"{'https' if settings.page.certificate else 'http'}://{settings.page.listen}"
    typer.echo(f"{address}/  (metrics: {address}/metrics)")
    server = uvicorn.Server(config)
    server.run()
    return 0 if server.started else 1

"""The page over HTTP: itself, its stream of events, and the metrics. It answers; it changes nothing."""

from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from offpeak.machines.credentials import Secret
from ui.page.access import COOKIE, HEADERS, is_token, may_see
from ui.page.follow import MOST_FOLLOWERS, Followers

KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
PLOTLY = "plotly.min.js"
REFUSED = "no token, or the wrong one: open /?token=TOKEN once, or show it as Authorization: Bearer TOKEN\n"
NOT_HERE = "this page is for this machine only: open it as localhost, or give it a token (token_file below [page])\n"

Measure = Callable[[], tuple[bytes, str]]
"""Gives the metrics and their content type; it waits for the agent."""


class Guarded:
    """Lets in who may see the page, and tells browsers what it may do."""

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
        if may_see(Headers(scope=scope), self._token):
            return self._app
        if self._token is not None and is_token(request.query_params.get("token", ""), self._token):
            return _with_cookie(request, self._token)
        if self._token is None:
            return PlainTextResponse(NOT_HERE, status_code=403)
        return PlainTextResponse(REFUSED, status_code=401, headers={"WWW-Authenticate": "Bearer"})


def page_app(followers: Followers, measure: Measure, token: Secret | None) -> ASGIApp:
    """Return the application."""

    async def events(_: Request) -> Response:
        if followers.count >= MOST_FOLLOWERS:
            return PlainTextResponse("too many look already\n", status_code=503)
        return StreamingResponse(
            followers.follow(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def metrics(_: Request) -> Response:
        text, kind = await run_in_threadpool(measure)
        return Response(text, media_type=kind)

    routes = [
        Route("/", lambda _: _file("page.html")),
        Route("/events", events),
        Route("/metrics", metrics),
        Route("/static/{name}", lambda request: _file(request.path_params["name"])),
    ]
    return Guarded(Starlette(routes=routes), token)


def _file(name: str) -> Response:
    path = plotly_script() if name == PLOTLY else _own(name)
    if path is None:
        return PlainTextResponse("no such page\n", status_code=404)
    # What is asked for again is compared by its tag: after an update nobody sees the old page.
    return FileResponse(path, media_type=KINDS[path.suffix], headers={"Cache-Control": "no-cache"})


def _own(name: str) -> Path | None:
    folder = Path(str(files("ui.page")))
    return next((file for file in folder.iterdir() if file.name == name and file.suffix in KINDS), None)


def plotly_script() -> Path:
    """Return the script in plotly's wheel, without the seconds that importing it takes."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("plotly")
    return Path(found.origin).parent / "package_data" / PLOTLY


def _with_cookie(request: Request, token: Secret) -> Response:
    """Keep the token in a cookie, so that it does not stay in the address."""
    response = RedirectResponse(request.url.path, status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token.value.decode(), httponly=True, samesite="strict", secure=secure)
    return response

"""Runs the page until a signal ends it."""

import typer
import uvicorn

from offpeak.machines.credentials import read_secret
from offpeak.settings.table import Settings
from ui.page.access import check_place, place_of
from ui.page.app import page_app
from ui.page.bounded import BoundedProtocol
from ui.page.follow import Followers
from ui.page.look import Looker
from ui.page.metrics import Metrics

BACKLOG = 64
KEEP_ALIVE_S = 5
PATIENCE_S = 2
"""Who follows is hung up on when the page ends."""


def run_page(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. BadInput for what cannot be used."""
    token = read_secret(settings.page.token_file) if settings.page.token_file else None
    host, port = place_of(settings.page.listen)
    check_place(host, token)
    followers, metrics = Followers(lambda: Looker(settings).look), Metrics(settings)
    config = uvicorn.Config(
        page_app(followers, metrics.text, token),
        host=host,
        port=port,
        # An access log would hold the token of who opens the page for the first time.
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
    )
    typer.echo(f"http://{settings.page.listen}/  (metrics: http://{settings.page.listen}/metrics)")
    server = uvicorn.Server(config)
    server.run()
    return 0 if server.started else 1

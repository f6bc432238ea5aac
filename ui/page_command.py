"""`offpeak page`: the service of the status page and the metrics."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from offpeak.installation import missing_extra
from ui.agent.command import LEDGER, SOCKET, settings_of
from ui.options import CONFIG, option

NEEDED = ("starlette", "uvicorn", "prometheus_client")


def page(
    context: typer.Context,
    listen: Annotated[str | None, option("page.listen")] = None,
    token_file: Annotated[Path | None, option("page.token_file")] = None,
    socket: SOCKET = None,
    url: LEDGER = None,
    config: CONFIG = None,
) -> None:
    """Serve the status page for browsers, and metrics for Prometheus at /metrics. Read-only."""
    check_needs()
    options = {"page.listen": listen, "page.token_file": token_file, "agent.socket": socket, "ledger.url": url}
    settings = settings_of(config, options)
    # What serves it loads Starlette and SQLAlchemy, which `offpeak --version` must not wait for.
    from services.page.server import run_page

    context.exit(run_page(settings))


def check_needs() -> None:
    """Raise BadInput if a package that the page needs is not installed."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise missing_extra("the page", "page", *missing)

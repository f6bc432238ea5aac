"""`offpeak broker`: polls the sites of a federation, and answers portals over HTTP."""

from typing import Annotated

import typer

from ui.agent.command import LEDGER, SOCKET, settings_of
from ui.federation.choose_command import SITES
from ui.options import CONFIG, option


def broker(
    context: typer.Context,
    listen: Annotated[str, typer.Option(help="Address and port; there is no TLS.")] = "127.0.0.1:8450",
    mode: Annotated[str | None, option("broker.mode")] = None,
    sites: SITES = None,
    poll: Annotated[str | None, option("broker.poll")] = None,
    token_file: Annotated[str | None, option("broker.token_file")] = None,
    secret_file: Annotated[str | None, option("broker.secret_file")] = None,
    socket: SOCKET = None,
    state_folder: Annotated[str | None, option("agent.state_folder")] = None,
    url: LEDGER = None,
    config: CONFIG = None,
) -> None:
    """Keep what the sites say at hand, and choose and submit for portals that show the token."""
    options = {
        "broker.mode": mode,
        "broker.sites": sites,
        "broker.poll": poll,
        "broker.token_file": token_file,
        "broker.secret_file": secret_file,
        "agent.socket": socket,
        "agent.state_folder": state_folder,
        "ledger.url": url,
    }
    settings = settings_of(config, options)
    # What answers loads numpy, pydantic and SQLAlchemy, which `offpeak --version` must not wait for.
    from power.broker.run import run_broker

    context.exit(run_broker(settings, listen))

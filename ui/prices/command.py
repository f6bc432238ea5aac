"""`offpeak prices`: the known prices, their source, and the errors of sources."""

import os
from typing import Annotated

import typer

from offpeak.settings.file import settings_path
from ui.options import CONFIG, KNOWN_PRICES, chosen_settings, settings_options
from ui.requests import PricesRequest


@settings_options(*KNOWN_PRICES)
def prices(
    *,
    options: dict[str, object],
    from_: Annotated[
        str | None, typer.Option("--from", help="First date, or date and time. [default: today]", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="End: date, or date and time. [default: two days later]", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Show the known prices, their source, and the errors of the queried sources."""
    settings = chosen_settings(settings_path(config, os.environ), options=options)
    # What answers loads requests and pyarrow, which `offpeak --version` must not wait for.
    from ui.prices.answer import answer

    answer(settings, PricesRequest(from_, to, as_json))

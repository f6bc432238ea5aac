"""`offpeak prices`: the known prices, their source, and the errors of sources."""

from typing import Annotated

import typer

from ui.options import JSON, KNOWN_PRICES, CommandSettings, settings_options


@settings_options(*KNOWN_PRICES)
def prices(
    chosen: CommandSettings,
    from_: Annotated[
        str | None, typer.Option("--from", help="First date, or date and time. [default: today]", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="End: date, or date and time. [default: two days later]", show_default=False)
    ] = None,
    as_json: JSON = False,
) -> None:
    """Show the known prices, their source, and the errors of the queried sources."""
    # What answers loads requests and pyarrow, which `offpeak --version` must not wait for.
    from ui.prices.answer import answer

    answer(chosen.read(), from_, to, as_json=as_json)

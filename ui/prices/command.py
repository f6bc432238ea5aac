"""`offpeak prices`: which prices are known, who says so, and what was wrong with those who were asked."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from offpeak.settings_file import settings_path
from ui.options import CONFIG, chosen_settings, option


def prices(
    zone: Annotated[str | None, option("feeds.zone")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="First date, or date and time. [default: today]", show_default=False)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Date, or date and time, up to which. [default: two days on]", show_default=False),
    ] = None,
    sources: Annotated[list[str] | None, option("feeds.prices")] = None,
    currency: Annotated[str | None, option("feeds.currency")] = None,
    key_file: Annotated[str | None, option("feeds.key_file")] = None,
    cache: Annotated[str | None, option("feeds.cache")] = None,
    timeout: Annotated[str | None, option("feeds.timeout")] = None,
    file: Annotated[str | None, option("prices.file")] = None,
    layout: Annotated[str | None, option("prices.layout")] = None,
    tariff: Annotated[str | None, option("prices.tariff")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them into a file: .html or .png.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Say which prices are known, from whom, and what was wrong with the sources that were asked."""
    settings = chosen_settings(
        settings_path(config, os.environ),
        options={
            "feeds.zone": zone,
            "feeds.prices": ",".join(sources) if sources else None,
            "feeds.currency": currency,
            "feeds.key_file": key_file,
            "feeds.cache": cache,
            "feeds.timeout": timeout,
            "prices.file": file,
            "prices.layout": layout,
            "prices.tariff": tariff,
        },
    )
    # What answers loads requests and pyarrow, which `offpeak --version` must not wait for.
    from ui.prices.answer import answer

    answer(settings, Request(from_, to, plot, as_json))


@dataclass(frozen=True)
class Request:
    """What is asked for besides the settings."""

    from_text: str | None
    to_text: str | None
    plot: Path | None
    as_json: bool

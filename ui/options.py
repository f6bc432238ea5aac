"""Command line options made from the table of settings: flag and help are written there, once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from offpeak.errors import BadInput
from offpeak.setting_kinds import BOOL
from offpeak.setting_row import Value
from offpeak.settings import BY_NAME, Settings
from offpeak.settings_file import read_values
from offpeak.settings_text import help_text

CONFIG = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file [default: $OFFPEAK_CONFIG, else /etc/offpeak/offpeak.toml]."),
]

FEWEST_REPLAYS = 10
"""Replays below this number give no range to speak of."""


def option(name: str) -> Any:
    """Return the option of the setting `name`; its parameter defaults to None, which means not given."""
    setting = BY_NAME[name]
    flag = f"{setting.flag}/--no-{setting.flag[2:]}" if setting.kind is BOOL else setting.flag
    return typer.Option(flag, help=help_text(setting), show_default=False)


def chosen_settings(file: Path | None, *, options: Mapping[str, object]) -> Settings:
    """Return the settings of the file with the options that were given; BadInput if both prices and a tariff were."""
    values = read_values(file, options=options)
    if options["prices.tariff"] is not None:
        if options["prices.file"] is not None:
            raise BadInput("--prices and --tariff exclude each other", hint="give the one that you pay")
        values["prices.file"] = Value(None, None, "--tariff")
    return Settings.of(values)

"""Command line options made from the table of settings: flag and help are written there, once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from offpeak.setting_kinds import BOOL
from offpeak.settings import BY_NAME
from offpeak.settings_text import help_text

CONFIG = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file [default: $OFFPEAK_CONFIG, else /etc/offpeak/offpeak.toml]."),
]


def option(name: str) -> Any:
    """Return the option of the setting `name`; its parameter defaults to None, which means not given."""
    setting = BY_NAME[name]
    flag = f"{setting.flag}/--no-{setting.flag[2:]}" if setting.kind is BOOL else setting.flag
    return typer.Option(flag, help=help_text(setting), show_default=False)

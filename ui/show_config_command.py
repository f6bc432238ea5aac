"""`offpeak show-config`: each setting with its value, unit and origin."""

import json
import os
from collections.abc import Mapping
from typing import Annotated

import typer

from offpeak.settings.file import example_toml, plain, read_values, settings_path
from offpeak.settings.kinds import SettingValue
from offpeak.settings.table import BY_NAME
from ui.options import CONFIG


def show_config(
    config: CONFIG = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented settings file instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: an object by setting name.")] = False,
) -> None:
    """Show each setting with its value and origin."""
    if example:
        typer.echo(example_toml(), nl=False)
        return
    values = read_values(settings_path(config, os.environ))
    typer.echo(config_json(values) if as_json else config_table(values))


def config_table(values: Mapping[str, SettingValue]) -> str:
    """Return the settings as aligned columns: name, value, unit, origin."""
    rows = [("SETTING", "VALUE", "UNIT", "ORIGIN")]
    rows += [(name, plain(value.written), BY_NAME[name].unit, value.origin) for name, value in values.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def config_json(values: Mapping[str, SettingValue]) -> str:
    """Return the settings as a JSON object by name, values as written."""
    described = {
        name: {"value": value.written, "unit": BY_NAME[name].unit, "origin": value.origin}
        for name, value in values.items()
    }
    return json.dumps(described, indent=2, ensure_ascii=False)

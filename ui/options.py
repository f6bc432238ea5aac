"""Command line options made from the table of settings: flag and help are written there, once."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from offpeak.errors import BadInput
from offpeak.settings.file import help_text, read_values
from offpeak.settings.kinds import BOOL, SettingValue
from offpeak.settings.table import BY_NAME, Settings

CONFIG = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file [default: $OFFPEAK_CONFIG, else /etc/offpeak/offpeak.toml]."),
]

START = Annotated[
    str | None,
    typer.Option(
        "-S",
        "--since",
        "--starttime",
        help="Start: 2026-11-01, 2026-11-01T08:00, yesterday, now-7days. [default: today]",
        show_default=False,
    ),
]
END = Annotated[
    str | None, typer.Option("-E", "--endtime", help="End, no more in it. [default: now]", show_default=False)
]

KNOWN_PRICES = (
    "feeds.zone",
    "feeds.prices",
    "feeds.currency",
    "feeds.key_file",
    "feeds.cache",
    "feeds.timeout",
    "prices.file",
    "prices.layout",
    "prices.tariff",
)
"""The settings that say where known prices come from."""
FEWEST_REPLAYS = 10
"""Replays below this number give no range to speak of."""


def option(name: str) -> Any:
    """Return the option of the setting `name`; its parameter defaults to None, which means not given."""
    setting = BY_NAME[name]
    flag = f"{setting.flag}/--no-{setting.flag[2:]}" if setting.kind is BOOL else setting.flag
    return typer.Option(flag, help=help_text(setting), show_default=False)


def settings_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what puts the options of these settings in the place of a command's parameter `options`.

    The command gets them by the settings' names, None where not given; a list as names with commas.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        of_setting = {_parameter_name(name): name for name in names}
        hints = get_type_hints(command, include_extras=True)
        shown: dict[str, inspect.Parameter] = {}
        for parameter in inspect.signature(command).parameters.values():
            own = parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            shown |= (
                {each: _parameter(each, of_setting[each]) for each in of_setting}
                if own.name == "options"
                else {own.name: own}
            )

        @wraps(command)
        def called(**given: Any) -> None:
            options = {name: _joined(given.pop(parameter)) for parameter, name in of_setting.items()}
            command(**given, options=options)

        called.__dict__["__signature__"] = inspect.Signature(list(shown.values()))
        called.__annotations__ = {name: parameter.annotation for name, parameter in shown.items()}
        return called

    return decorated


def _parameter_name(setting: str) -> str:
    return setting.replace(".", "_")


def _parameter(parameter: str, setting: str) -> inspect.Parameter:
    typed: Any = BY_NAME[setting].kind.typed
    annotation: Any = Annotated[typed | None, option(setting)]
    return inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _joined(given: object) -> object:
    return (",".join(given) or None) if isinstance(given, list | tuple) else given


def chosen_settings(file: Path | None, *, options: Mapping[str, object]) -> Settings:
    """Return the settings of the file with the options that were given; BadInput if both prices and a tariff were."""
    by_tariff = options["prices.tariff"] is not None
    if by_tariff and options["prices.file"] is not None:
        raise BadInput("--prices and --tariff exclude each other", hint="give the one that you pay")
    values = read_values(file, options=options)
    if by_tariff:
        values["prices.file"] = SettingValue(None, None, "--tariff")
    return Settings.of(values)

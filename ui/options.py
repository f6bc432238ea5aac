"""The table of settings on the command line: options that are generated from it, and `offpeak show-config`."""

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from offpeak.errors import BadInput
from offpeak.settings.file import example_toml, help_text, plain, read_values, settings_path
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
        metavar="TIME",
        help="Start: 2026-11-01, 2026-11-01T08:00, yesterday, now-7days. [default: today]",
        show_default=False,
    ),
]
END = Annotated[
    str | None,
    typer.Option("-E", "--endtime", metavar="TIME", help="End, exclusive. [default: now]", show_default=False),
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
LENIENT = Annotated[bool, typer.Option("--lenient", help="Skip malformed lines and count them.")]
MONTH = Annotated[
    str | None,
    typer.Option("--month", help="Month, such as 2026-11. [default: the last complete one]", show_default=False),
]
NODES = Annotated[
    str | None,
    typer.Argument(metavar="[NODES]", help="Node set, such as n[001-064]. [default: all]", show_default=False),
]
KNOWN_PRICES = (
    *("feeds.zone", "feeds.prices", "feeds.currency", "feeds.key_file", "feeds.cache", "feeds.timeout"),
    *("prices.file", "prices.layout", "prices.tariff"),
)
"""The settings of the sources of known prices."""
ON = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="WORKERS",
        help="Run on workers: dask://HOST:PORT, or jobs of slurm or pbs; slurm:8 is 8 jobs at most.",
        show_default=False,
    ),
]
ESTIMATE_DAYS = 91
"""The days of a live cluster's accounting that an estimate reads."""
FEWEST_REPLAYS = 10
"""Fewer replays give no meaningful range."""


@dataclass(frozen=True)
class CommandSettings:
    """The settings of a command: their file, and by name the options of the command line, None if not given."""

    config: Path | None
    options: Mapping[str, object]
    find_file: Callable[[Path | None, Mapping[str, str]], Path | None] = settings_path

    @property
    def file(self) -> Path | None:
        """The settings file, None if there is none."""
        return self.find_file(self.config, os.environ)

    @property
    def given(self) -> frozenset[str]:
        """The settings whose options are given."""
        return frozenset(name for name, value in self.options.items() if value is not None)

    def values(self) -> dict[str, SettingValue]:
        """Return a value for each setting; raise BadInput for --prices and a rule."""
        given = self.options.get("prices.tariff")
        by_tariff = given is not None and not str(given).endswith(".toml")
        if by_tariff and self.options.get("prices.file") is not None:
            raise BadInput("--prices and --tariff cannot be combined", hint="give the one that your contract uses")
        values = read_values(self.file, options=self.options)
        if by_tariff:
            values["prices.file"] = SettingValue(None, None, "--tariff")
        return values

    def read(self) -> Settings:
        """Return the settings; read again, they are those of a file that was changed."""
        return Settings.of(self.values())


def settings_options(
    *names: str, find_file: Callable[..., Path | None] = settings_path
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of these settings and --config to a command, behind its own.

    The first parameter of the command receives them as CommandSettings; lists are joined by commas.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        of_setting = {name.replace(".", "_"): name for name in names}
        hints = get_type_hints(command, include_extras=True)
        _, *own = inspect.signature(command).parameters.values()
        shown = [each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        for parameter, name in of_setting.items():
            typed: Any = BY_NAME[name].kind.typed
            shown.append(_parameter(parameter, Annotated[typed | None, option(name)]))
        shown.append(_parameter("config", CONFIG))

        @wraps(command)
        def called(*, config: Path | None, **given: Any) -> None:
            options = {name: _joined(given.pop(parameter)) for parameter, name in of_setting.items()}
            command(CommandSettings(config, options, find_file), **given)

        called.__dict__["__signature__"] = inspect.Signature(shown)
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return called

    return decorated


COMMON = frozenset({"prices.file", "prices.tariff", "scheduling.policies", "capacity.policies"})
"""The settings whose options every help explains."""
METAVARS = {
    "prices.tariff": "TARIFF",
    "scheduling.policies": "POLICY[,POLICY]",
    "capacity.policies": "CAPACITY[,CAPACITY]",
    "capacity.depths": "DEPTH[,DEPTH]",
    "capacity.order": "ORDER",
    "power.node_class": "CLASS",
    "power.job": "MODEL",
    "path": "FILE",
    "list of names": "NAME[,NAME]",
    "power": "POWER",
    "duration": "DURATION",
    'duration or "event"': "DURATION",
}
"""What an option takes, by the setting's name or else by its kind."""


def option(name: str) -> Any:
    """Return the option of the setting `name`; the default of its parameter is None: not given."""
    setting = BY_NAME[name]
    flag = f"{setting.flag}/--no-{setting.flag[2:]}" if setting.kind is BOOL else setting.flag
    section = None if name in COMMON else setting.section
    metavar = METAVARS.get(name) or METAVARS.get(setting.kind.name)
    look: Any = {"show_default": False, "metavar": metavar, "rich_help_panel": section}
    return typer.Option(flag, help=help_text(setting), autocompletion=completion(name), **look)


NAMED = frozenset({"scheduling.policies", "capacity.policies", "agent.capacity", "power.node_class"})
"""The settings that take names of a registry."""


def completion(setting: str) -> Callable[[str], list[tuple[str, str]]] | None:
    """Return what completes a choice or a name of a registry in a shell, which alone loads the registries."""
    choices = BY_NAME[setting].kind.choices

    def names(incomplete: str) -> list[tuple[str, str]]:
        known = dict.fromkeys(choices, "") or _registered(setting)
        before = incomplete[: incomplete.rfind(",") + 1]
        return [(before + name, doc) for name, doc in known.items() if (before + name).startswith(incomplete)]

    return names if choices or setting in NAMED else None


def _registered(setting: str) -> dict[str, str]:
    from offpeak.model.node_class_file import bundled_node_classes
    from offpeak.power.capacity.registry import CAPACITY_POLICIES
    from offpeak.sim_backend.replay.policy import policy_docs

    if setting == "scheduling.policies":
        return policy_docs()
    if setting == "power.node_class":
        return dict.fromkeys(bundled_node_classes(), "")
    return {kind.name: kind.doc for kind in CAPACITY_POLICIES}


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _joined(given: object) -> object:
    return (",".join(given) or None) if isinstance(given, list | tuple) else given


def show_config(
    config: CONFIG = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented settings file instead.")] = False,
    names: Annotated[
        bool, typer.Option("--names", help="Print the names of policies, capacity policies and node classes instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: an object by setting name.")] = False,
) -> None:
    """Show each setting with its value and origin."""
    if names:
        typer.echo(names_text())
        return
    if example:
        typer.echo(example_toml(), nl=False)
        return
    values = read_values(settings_path(config, os.environ))
    if as_json:
        described = {
            name: {"value": value.written, "unit": BY_NAME[name].unit, "origin": value.origin}
            for name, value in values.items()
        }
        typer.echo(json.dumps(described, indent=2, ensure_ascii=False))
        return
    rows = [("SETTING", "VALUE", "UNIT", "ORIGIN")]
    rows += [(name, plain(value.written), BY_NAME[name].unit, value.origin) for name, value in values.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    typer.echo("\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows))


def names_text() -> str:
    """Return the names that --policy, --capacity and --node-class take, each with what it stands for."""
    from offpeak.display import watts_text
    from offpeak.model.node_class_file import bundled_node_class, bundled_node_classes
    from offpeak.model.node_states import DEPTHS
    from offpeak.power.capacity.registry import CAPACITY_POLICIES

    classes = {name: bundled_node_class(name) for name in bundled_node_classes()}
    sections = {
        "--policy": _registered("scheduling.policies"),
        "--capacity": {kind.example: kind.doc for kind in CAPACITY_POLICIES},
        "--node-class": {
            name: f"idle {watts_text(each.idle_w)}; asleep "
            + ", ".join(f"{DEPTHS[depth.depth]} {watts_text(depth.power_w)}" for depth in each.depths)
            for name, each in classes.items()
        },
    }
    width = max(len(name) for section in sections.values() for name in section)
    lines = [
        f"{title}\n" + "\n".join(f"  {name:{width}}  {what}" for name, what in section.items())
        for title, section in sections.items()
    ]
    return "\n\n".join(lines)

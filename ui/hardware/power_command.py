"""`offpeak power`: what nodes and PDUs draw now, and as it changes."""

import os
from pathlib import Path
from typing import Annotated

import typer

from offpeak.settings.file import read_values, settings_path
from offpeak.settings.table import Settings
from ui.options import CONFIG, option
from ui.parameters import PlainCommand, PlainGroup

power = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=False,
    rich_markup_mode=None,
    help="Read the power meters of nodes and PDUs; nothing is changed.",
)

NODES = Annotated[
    str | None,
    typer.Argument(metavar="[NODES]", help="Node set, such as n[001-064]. [default: all]", show_default=False),
]
INVENTORY = Annotated[str | None, option("hardware.inventory")]
TIMEOUT = Annotated[str | None, option("hardware.timeout")]


@power.command("now", cls=PlainCommand)
def now(
    nodes: NODES = None,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every reading as JSON.")] = False,
    config: CONFIG = None,
) -> None:
    """Say what nodes and PDUs draw now, who measured it, and how old each figure is."""
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pysnmp and pyghmi, which `offpeak --version` must not wait for.
    from ui.hardware.power_answer import print_now

    print_now(settings, nodes, as_json=as_json)


@power.command("watch", cls=PlainCommand)
def watch(
    nodes: NODES = None,
    every: Annotated[str, typer.Option(help="Time between two readings.")] = "10s",
    times: Annotated[int | None, typer.Option(min=1, help="Stop after so many. [default: on Ctrl-C]")] = None,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    config: CONFIG = None,
) -> None:
    """Print a line a reading: what all nodes draw, the energy since the start, and gaps in it."""
    settings = hardware_settings(config, inventory, timeout)
    from ui.hardware.power_watch import print_watch

    print_watch(settings, nodes, every=every, times=times)


def hardware_settings(config: Path | None, inventory: str | None, timeout: str | None) -> Settings:
    """Return the settings, with these two options of the command line."""
    options = {"hardware.inventory": inventory, "hardware.timeout": timeout}
    return Settings.of(read_values(settings_path(config, os.environ), options=options))

"""`offpeak check`: does everything that the inventory names answer, and may we ask it? Nothing is changed."""

from typing import Annotated

import typer

from power.check.as_agent import run_as_agent
from ui.hardware.power_command import INVENTORY, NODES, TIMEOUT, hardware_settings
from ui.options import CONFIG


def check(
    nodes: NODES = None,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Ask every BMC, PDU, node, feed and the scheduler once; say what is wrong, and what to do. Exits 1 if so.

    Root asks as the agent does: as its user, in the sandbox of its unit.
    """
    if inventory is None and config is None:
        options = [*([nodes] if nodes else []), *(["--device-timeout", timeout] if timeout else [])]
        code = run_as_agent(["check", *options, *(["--json"] if as_json else [])], remark=_remark)
        if code is not None:
            raise typer.Exit(code)
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pysnmp and pyghmi, which `offpeak --version` must not wait for.
    from ui.hardware.check_answer import answer

    answer(settings, nodes, as_json=as_json)


def _remark(text: str) -> None:
    typer.echo(f"offpeak: {text}", err=True)

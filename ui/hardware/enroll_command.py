"""`offpeak enroll`: who answers at each node's BMC, written into the inventory; and nodes taken over from elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from ui.hardware.power_command import INVENTORY, NODES, TIMEOUT, hardware_settings
from ui.options import CONFIG


def enroll(
    nodes: NODES = None,
    replace: Annotated[bool, typer.Option("--replace", help="Believe a BMC whose identity has changed.")] = False,
    standby_test: Annotated[
        bool,
        typer.Option(
            "--standby-test",
            help="Suspend the named nodes one after the other, wake them, and write whether they came back.",
        ),
    ] = False,
    from_racksdb: Annotated[
        Path | None, typer.Option(help="First add nodes from RacksDB, as it prints them.", show_default=False)
    ] = None,
    from_netbox: Annotated[
        Path | None, typer.Option(help="First add nodes from NetBox: its devices as CSV or JSON.", show_default=False)
    ] = None,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    config: CONFIG = None,
) -> None:
    """Ask every BMC who it is and what it can do, and write that into the inventory; nothing is switched off."""
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pysnmp and pyghmi, which `offpeak --version` must not wait for.
    from ui.hardware.enroll_answer import Request, answer

    answer(settings, Request(nodes, replace, standby_test, from_racksdb, from_netbox))

"""`offpeak check`: does everything that the inventory names answer, and may we ask it? Nothing is changed."""

from typing import Annotated

import typer

from ui.hardware.power_command import INVENTORY, NODES, TIMEOUT, hardware_settings
from ui.options import CONFIG


def check(
    nodes: NODES = None,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    config: CONFIG = None,
) -> None:
    """Ask every BMC, PDU, node, feed and the scheduler once; say what is wrong, and what to do. Exits 1 if so."""
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pysnmp and pyghmi, which `offpeak --version` must not wait for.
    from ui.hardware.check_answer import answer

    answer(settings, nodes, as_json=as_json)

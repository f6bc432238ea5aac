"""`offpeak nodes`: what every node is, is wanted to be, and draws, since when, and why."""

from typing import Annotated

import typer

from ui.hardware.power_command import INVENTORY, NODES, TIMEOUT, hardware_settings
from ui.options import CONFIG


def nodes(
    nodes: NODES = None,
    each: Annotated[bool, typer.Option("--each", help="Print a line a node, also for nodes that are alike.")] = False,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every node as JSON.")] = False,
    config: CONFIG = None,
) -> None:
    """Ask every node's BMC what it is and draws, and say beside it what it is wanted to be, and why."""
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pyghmi, which `offpeak --version` must not wait for.
    from ui.nodes.nodes_answer import print_nodes

    print_nodes(settings, nodes, each=each, as_json=as_json)

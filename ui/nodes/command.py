"""The commands `offpeak nodes` and `cap`: show nodes, wake or hold one or send it to sleep, cap them."""

from enum import StrEnum
from typing import Annotated, Literal

import typer

from offpeak.errors import BadInput
from offpeak.model.orders import NodeOrder
from offpeak.ui.options import JSON, NODES, CommandSettings, settings_options


class NodeAction(StrEnum):
    """The actions of `offpeak nodes`."""

    LIST = "list"
    SHOW = "show"
    WAKE = "wake"
    SLEEP = "sleep"
    HOLD = "hold"
    RELEASE = "release"


SleepOrder = Literal[NodeOrder.STANDBY, NodeOrder.SOFT_OFF, NodeOrder.HARD_OFF]
ACTIONS_OF_OPTION = {
    **dict.fromkeys(("--type", "--partition", "--each"), (NodeAction.LIST,)),
    "--depth": (NodeAction.SLEEP,),
    "--until": (NodeAction.HOLD,),
    "--take-over": (NodeAction.RELEASE,),
    "--reason": (NodeAction.HOLD, NodeAction.WAKE, NodeAction.SLEEP),
}


@settings_options("hardware.inventory", "hardware.timeout")
def nodes(
    chosen: CommandSettings,
    nodes: NODES = None,
    action: Annotated[
        NodeAction, typer.Argument(help="The action: list takes a node set, all others one node.")
    ] = NodeAction.LIST,
    node_type: Annotated[
        str | None, typer.Option("--type", help="Only nodes whose type contains this text, such as a100.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", help="Only nodes of this partition or queue.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Print one line per node, also for equal nodes.")] = False,
    depth: Annotated[SleepOrder | None, typer.Option(help="Sleep depth. [default: soft_off]")] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, recorded in the ledger.")] = None,
    until: Annotated[str | None, typer.Option(help="End of a hold: 8h, 2d, 18:00 or 2026-12-01T08:00.")] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Release a node that another admin holds.")] = False,
    as_json: JSON = False,
) -> None:
    """Show nodes and their states; wake one, hold or release it.

    A node has the state and power that its BMC reports, its desired state, and the reason. Orders obey all rules.
    """
    given = {"--type": node_type, "--partition": partition, "--each": each or None, "--depth": depth}
    given |= {"--until": until, "--reason": reason, "--take-over": take_over or None}
    for flag, value in given.items():
        if value is not None and action not in ACTIONS_OF_OPTION[flag]:
            raise BadInput(
                f"{flag} does not apply to {action}", hint=f"use it with {', '.join(ACTIONS_OF_OPTION[flag])}"
            )
    settings, name = chosen.read(), nodes or ""
    from offpeak.ui.nodes import orders as node_orders
    from offpeak.ui.nodes.nodes import NodeChoice, print_nodes

    match action:
        case NodeAction.LIST:
            print_nodes(settings, NodeChoice(nodes, node_type, partition), each=each, as_json=as_json)
        case NodeAction.SHOW:
            node_orders.print_node(settings, name, as_json=as_json)
        case NodeAction.WAKE:
            node_orders.order(settings, name, NodeOrder.ON, reason)
        case NodeAction.SLEEP:
            node_orders.order(settings, name, depth or NodeOrder.SOFT_OFF, reason)
        case NodeAction.HOLD:
            node_orders.hold(settings, name, reason, until)
        case NodeAction.RELEASE:
            node_orders.release(settings, name, take_over=take_over)


@settings_options()
def cap(
    chosen: CommandSettings,
    nodes: Annotated[str | None, typer.Argument(metavar="[NODES]", help="Node set. [default: show all caps]")] = None,
    limit: Annotated[str | None, typer.Argument(metavar="[WATTS|off]", help="Cap of each node, such as 350W.")] = None,
    duration: Annotated[str, typer.Option("--for", help="The agent ends the cap after this time.")] = "1h",
    reason: Annotated[str, typer.Option(help="Reason, recorded in the ledger.")] = "by hand",
    as_json: JSON = False,
) -> None:
    """Limit the power of running nodes, or end that. Without nodes, show the caps in force.

    The inventory says what is capped: the node by its BMC, its processors, or its GPUs.
    """
    settings = chosen.read()
    from offpeak.ui.nodes import orders as node_orders

    if nodes is None:
        node_orders.print_caps(settings, as_json=as_json)
    elif limit is None:
        raise BadInput(f"{nodes}: no cap is given", hint=f"offpeak cap {nodes} 350W --for 2h; offpeak cap {nodes} off")
    else:
        node_orders.cap(settings, nodes, limit, duration, reason)

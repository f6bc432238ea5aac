"""`offpeak node`: one node, shown, woken, sent to sleep, held, or given back."""

from enum import StrEnum
from typing import Annotated

import typer

from offpeak.errors import BadInput
from ui.hardware.power_command import INVENTORY, TIMEOUT, hardware_settings
from ui.options import CONFIG


class Action(StrEnum):
    """What can be done with a node."""

    SHOW = "show"
    WAKE = "wake"
    SLEEP = "sleep"
    HOLD = "hold"
    RELEASE = "release"


class Depth(StrEnum):
    """How a node can sleep, as the inventory names its rungs."""

    STANDBY = "standby"
    SOFT_OFF = "soft_off"
    HARD_OFF = "hard_off"


GOES_WITH = {
    "--depth": (Action.SLEEP,),
    "--until": (Action.HOLD,),
    "--take-over": (Action.RELEASE,),
    "--reason": (Action.HOLD, Action.WAKE, Action.SLEEP),
}


def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A node of the inventory.")],
    action: Annotated[Action, typer.Argument(help="What to do with it.", show_default=False)] = Action.SHOW,
    depth: Annotated[Depth | None, typer.Option(help="How deep it is to sleep. [default: soft_off]")] = None,
    reason: Annotated[str | None, typer.Option(help="Why, in words, for whoever asks later.")] = None,
    until: Annotated[str | None, typer.Option(help="End of a hold: 8h, 2d, 18:00 or 2026-12-01T08:00.")] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Release a node that another admin holds.")] = False,
    inventory: INVENTORY = None,
    timeout: TIMEOUT = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the node as JSON.")] = False,
    config: CONFIG = None,
) -> None:
    """Show a node; wake it or send it to sleep, through all the safety rules; hold it, or give it back."""
    _refuse_idle_options(
        action, {"--depth": depth, "--until": until, "--reason": reason, "--take-over": take_over or None}
    )
    settings = hardware_settings(config, inventory, timeout)
    # What answers loads pyghmi, which `offpeak --version` must not wait for.
    from ui.nodes import node_answer, node_order

    match action:
        case Action.SHOW:
            node_answer.print_node(settings, name, as_json=as_json)
        case Action.WAKE:
            node_order.order(settings, name, "on", reason)
        case Action.SLEEP:
            node_order.order(settings, name, str(depth or Depth.SOFT_OFF), reason)
        case Action.HOLD:
            node_answer.hold(settings, name, reason, until)
        case Action.RELEASE:
            node_answer.release(settings, name, take_over=take_over)


def _refuse_idle_options(action: Action, options: dict[str, object]) -> None:
    for flag, value in options.items():
        if value is not None and action not in GOES_WITH[flag]:
            raise BadInput(f"{flag} means nothing to {action}", hint=f"it goes with {', '.join(GOES_WITH[flag])}")

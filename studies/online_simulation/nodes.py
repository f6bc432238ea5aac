"""The node classes of the study: the bundled `server`, and the same with transitions that take no time."""

from dataclasses import replace

from offpeak.model.node_class import NodeClass, SleepDepth, Transition
from offpeak.model.node_class_file import bundled_node_class
from studies.online_simulation.experiment import INSTANT, SERVER

NO_TIME = Transition(0, 0.0, 0.0)


def node_class_of(nodes: str) -> NodeClass:
    """Return the class that a setup names."""
    server = bundled_node_class(SERVER)
    return replace(server, name=INSTANT, depths=tuple(map(_at_once, server.depths))) if nodes == INSTANT else server


def _at_once(depth: SleepDepth) -> SleepDepth:
    return replace(depth, enter=NO_TIME, leave=NO_TIME)

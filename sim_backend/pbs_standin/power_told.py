"""`pbsnodes -m`: Torque has a node's daemon shut it down, or wakes it by a packet."""

from collections.abc import Sequence

from sim_backend.pbs_standin.answer import Answer
from sim_backend.pbs_standin.pbs import OPENPBS, Pbs
from sim_backend.scheduler.sim_node import SimNode

RUNNING, SHUTDOWN = "running", "shutdown"


def power_told(pbs: Pbs, nodes: Sequence[SimNode], word: str, *, manager: bool) -> Answer:
    """Tell the nodes and answer as a real 6.1 does: code 0 whatever failed, and an error when it has acted."""
    if pbs.kind == OPENPBS:
        return Answer(err="pbsnodes: invalid option -- 'm'\n", code=1)
    said = {node.name: _told(node, word, manager) for node in nodes}
    lines = (f"Error setting node power state for {name} - {why}\n" for name, why in said.items() if why)
    return Answer(err="".join(lines))


def _told(node: SimNode, word: str, manager: bool) -> str:
    if not manager:
        return "Unauthorized Request  MSG=error in permissions (PERM_OPorMGR)"
    if node.used and word != RUNNING:
        return "Can't change power state on a node which has running jobs."
    node.told = word
    return "" if word == RUNNING else "Job not found"

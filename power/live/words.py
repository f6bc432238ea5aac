"""What the scheduler says of its nodes, in the words of the life cycle."""

from collections.abc import Iterable

from plugin.scheduler.node import Node, NodePower, NodeUse
from power.lifecycle.life import Word

COMING = frozenset({NodePower.ASKED_UP, NodePower.COMING_UP})
GOING = frozenset({NodePower.ASKED_DOWN, NodePower.GOING_DOWN})


def words_of(nodes: Iterable[Node]) -> dict[str, Word]:
    """Return the word of each node; what the scheduler does not know of has none."""
    found = ((node.name, word_of(node)) for node in nodes)
    return {name: word for name, word in found if word is not None}


def word_of(node: Node) -> Word | None:
    """Return the life cycle's word for a node, None where nothing is known.

    A job on a node that is powered down waits for it to boot: nothing runs there, and it has to be woken.
    """
    if node.use is NodeUse.UNKNOWN:
        return None
    if is_awaited(node):
        return Word.BOOTS
    if node.use is NodeUse.USED:
        return Word.BUSY
    return _word_of_free(node)


def is_awaited(node: Node) -> bool:
    """Whether the scheduler waits for it to come up: for a job, or because somebody asked for that."""
    return node.power in COMING or (node.power is NodePower.DOWN and node.use is NodeUse.USED)


def _word_of_free(node: Node) -> Word:
    if node.power in (NodePower.DOWN, NodePower.GOING_DOWN) or node.failed or not node.responds:
        return Word.DOWN
    return Word.DRAINED if node.closed or node.power is NodePower.ASKED_DOWN else Word.UP

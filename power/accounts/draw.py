"""What a job is taken to draw."""

from typing import NamedTuple


class Draw(NamedTuple):
    """What it draws per node [W], of a shared node its own share, and in words what that rests on."""

    node_w: float
    basis: str

"""What is run: one way to schedule and to select on the simulated clusters, or a column of Table IX; with its seed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """A scheduler on all three clusters, idle nodes `asleep` or not, a selection, and what the jobs ask for.

    `load`: the share of all 120 nodes that jobs ask for until the last one is submitted. `queue_limit`: jobs in a queue
    beyond which ECA passes a cluster over.
    """

    discipline: str
    asleep: bool
    selection: str
    load: float
    queue_limit: int


@dataclass(frozen=True)
class Bench:
    """A column of Table IX: its name."""

    column: str


Case = Choice | Bench


@dataclass(frozen=True)
class Experiment:
    """A case with the chances of the seed (`seed`, `replay`)."""

    case: Case
    seed: int
    replay: int

"""What the constraint solver is asked, as columns that another process can be sent."""

from dataclasses import dataclass

from offpeak.jobs import Float64, Int64


@dataclass(frozen=True, eq=False)
class Taken:
    """What jobs outside the question use of each resource from `at_s[i]` on; int64[steps, resources]."""

    at_s: Int64
    used: Int64


@dataclass(frozen=True, eq=False)
class OnNode:
    """Jobs, by their place in the question, that keep a node, and the cores that each has there of its `capacity`."""

    job: Int64
    cores: Int64
    capacity: int


@dataclass(frozen=True, eq=False)
class Question:
    """Which of these jobs starts when, equal nodes taken together as one?

    `asks` are whole jobs' cores, MB, GPUs, units that bear no second of their kind on a node, and watts, against what
    the machine `has`; int64[jobs, 5]. `per_s` is what a job earns a second in
    each step between `edge_s`; the last edge is the horizon, and a job that starts there does not start in this plan.
    `hint_s` is the incumbent's start, the horizon for none.
    """

    asks: Int64
    has: Int64
    duration_s: Int64
    earliest_s: Int64
    latest_s: Int64
    hint_s: Int64 | None
    edge_s: Int64
    per_s: Float64
    taken: Taken
    on_nodes: tuple[OnNode, ...]

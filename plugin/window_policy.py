"""Window policies order the first jobs of the queue. The port for own policies, and the registry of all.

The built-in policies are compiled into the engine and are known to it by `code`; one from outside is Python, registered
in the group of entry points WINDOW_POLICIES, and consulted at each scheduling pass.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from operator import index
from pathlib import Path
from typing import Protocol

import numpy as np

from offpeak.errors import BadInput, OffpeakError
from offpeak.model.arrays import Float64, Int64
from offpeak.prices.peak import Peak
from offpeak.settings.agent import BUILT_IN_QUEUE_POLICIES, WINDOW_POLICIES
from offpeak.text import did_you_mean, printable

MOST_JOBS = 64
"""The largest window of a knapsack: its kernel packs a set of jobs into 64 bits."""

ARRIVAL, GREEDY, GREEDY_SLIDE, KNAPSACK, KNAPSACK_SLIDE, EXTERNAL = range(6)


@dataclass(frozen=True)
class WindowView:
    """The input of a policy at a scheduling pass: the window's jobs in the site's order, as read-only columns.

    Jobs that keep their place are left out; `free` are the units that these leave. `waited_s`, `estimate_s`: seconds.
    `size`, `free`: allocation units. `node_power_w`: draw per unit [W].
    """

    now_s: int
    peak: Peak
    free: int
    job_id: Int64
    size: Int64
    estimate_s: Int64
    waited_s: Int64
    node_power_w: Float64

    def __post_init__(self) -> None:
        for column in (self.job_id, self.size, self.estimate_s, self.waited_s, self.node_power_w):
            column.flags.writeable = False


class OrderWindow(Protocol):
    """A policy in Python: returns the ranks of the window in the order in which they must start."""

    def __call__(self, view: WindowView, /) -> Sequence[int]:
        """Return ranks, each at most once; those left out follow in submission order."""


OrderWindows = Callable[[Sequence[WindowView]], Sequence[Sequence[int]]]
"""Returns the checked ranks of each window of one cycle. Raises OffpeakError if the policy gives none."""


@dataclass(frozen=True)
class WindowPolicy:
    """A policy by name. `order` is set for policies from outside only."""

    name: str
    code: int
    doc: str
    most_jobs: int | None = None
    order: OrderWindow | None = None

    @property
    def weighs_free(self) -> bool:
        """Whether it is a knapsack, which fills the free units."""
        return self.most_jobs is not None


def own_ranks(policy: WindowPolicy, view: WindowView) -> list[int]:
    """Return the checked ranks of a policy from outside. Raises OffpeakError if it fails or returns no order."""
    assert policy.order is not None
    try:
        ranks = policy.order(view)
    except OffpeakError:
        raise
    except SystemExit as problem:
        raise OffpeakError(
            f"the window policy {policy.name!r} has ended the program", hint="it must not end the program that calls it"
        ) from problem
    except Exception as problem:
        at = traceback.extract_tb(problem.__traceback__)[-1]
        text = printable(f"{type(problem).__name__}: {problem}")
        raise OffpeakError(
            f"the window policy {policy.name!r} failed: {text} ({Path(at.filename).name}, line {at.lineno})",
            hint="repair its package; an agent loads it again when it is reloaded",
        ) from problem
    return checked_ranks(policy.name, ranks, len(view.size))


def checked_ranks(name: str, ranks: object, window: int) -> list[int]:
    """Return a policy's answer completed by the ranks left out. Raises OffpeakError if it is no order of the window."""
    try:
        if not isinstance(ranks, Sequence | np.ndarray):
            raise TypeError
        given = [index(rank) for rank in ranks]
    except TypeError as error:
        raise OffpeakError(
            f"the window policy {name!r} returned {printable(repr(ranks))}", hint="it must return ranks of the window"
        ) from error
    if len(set(given)) != len(given) or not all(0 <= rank < window for rank in given):
        raise OffpeakError(
            f"the window policy {name!r} returned {printable(repr(given))}, which is no order of {window} jobs",
            hint="it must return each rank from 0 to the window's length at most once",
        )
    named = set(given)
    return given + [rank for rank in range(window) if rank not in named]


NO_POLICY = WindowPolicy("", ARRIVAL, "jobs in submission order")

BUILT_IN = (
    WindowPolicy("greedy", GREEDY, "hungriest jobs first off-peak, most frugal first on-peak"),
    WindowPolicy(
        "knapsack", KNAPSACK, "fill the free nodes, with the most power off-peak, the least on-peak", MOST_JOBS
    ),
    WindowPolicy("greedy-slide", GREEDY_SLIDE, "greedy as the paper's slide prints it, the other way round"),
    WindowPolicy("knapsack-slide", KNAPSACK_SLIDE, "knapsack to the letter: on-peak nothing starts", MOST_JOBS),
)
BUILT_IN_BY_NAME = {policy.name: policy for policy in BUILT_IN}


def window_policies() -> dict[str, WindowPolicy]:
    """Return all policies by name. Raises OffpeakError if one from outside takes a name that is taken."""
    policies = dict(BUILT_IN_BY_NAME)
    for point in entry_points(group=WINDOW_POLICIES):
        if point.name in policies or point.name in BUILT_IN_QUEUE_POLICIES:
            raise OffpeakError(
                f"the window policy {point.name!r} of {point.value} has a name that is taken",
                hint="rename its entry point, or uninstall one of the two",
            )
        policies[point.name] = WindowPolicy(point.name, EXTERNAL, point.value)
    return policies


def window_policy(name: str) -> WindowPolicy:
    """Return the policy of that name, loaded. Raises BadInput if there is none, OffpeakError if it cannot be loaded."""
    policies = window_policies()
    if name not in policies:
        raise BadInput(f"unknown policy {name!r}", hint=did_you_mean(name, tuple(policies)))
    policy = policies[name]
    if policy.code != EXTERNAL:
        return policy
    (point,) = entry_points(group=WINDOW_POLICIES, name=name)
    try:
        return WindowPolicy(name, EXTERNAL, policy.doc, order=point.load())
    except Exception as error:
        raise OffpeakError(
            f"the window policy {name!r} of {point.value} cannot be loaded: {error}",
            hint="uninstall or repair its package",
        ) from error

"""Nodes on a terminal: a line for all that are alike, or a line a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.table import Table

from offpeak.machines.node_sets import fold
from offpeak.text import counted
from ui.clock_text import clock_text
from ui.figures_text import NOT_WRAPPED
from ui.watts_text import power_text

HEADERS = ("nodes", "state", "wanted", "draws", "since", "by", "why")


@dataclass(frozen=True)
class NodeRow:
    """A node as it is shown: what it is now, and what the book says of that; None is what nobody knows."""

    node: str
    state: str
    watts: float | None
    since_unix_s: float | None
    by: str
    desired: str
    why: str


@dataclass(frozen=True)
class Alike:
    """Nodes that are the same in everything but their draw and since when."""

    nodes: tuple[str, ...]
    rows: tuple[NodeRow, ...]

    @property
    def watts(self) -> float | None:
        """Return what all of them draw, None where any of them is not known."""
        known = [row.watts for row in self.rows]
        return None if None in known else sum(each for each in known if each is not None)


def print_nodes_text(rows: Sequence[NodeRow], *, each: bool, now_unix_s: float) -> None:
    """Print the nodes, and how many are in which state."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = NOT_WRAPPED
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in HEADERS:
        table.add_column(header, justify="right" if header in ("draws", "since") else "left")
    for group in [Alike((row.node,), (row,)) for row in rows] if each else alike(rows):
        first = group.rows[0]
        drawn, since = power_text(group.watts), since_text(group.rows, now_unix_s)
        table.add_row(fold(group.nodes), first.state, first.desired, drawn, since, first.by, first.why)
    console.print(table)
    console.print()
    console.print(summary(rows))


def alike(rows: Iterable[NodeRow]) -> tuple[Alike, ...]:
    """Return the nodes with like ones put together, each where its first one stood."""
    groups: dict[tuple[str, ...], list[NodeRow]] = {}
    for row in rows:
        # What is wrong names the node itself.
        why = row.why.replace(row.node, "")
        groups.setdefault((row.state, row.desired, row.by, why), []).append(row)
    return tuple(Alike(tuple(row.node for row in group), tuple(group)) for group in groups.values())


def since_text(rows: Iterable[NodeRow], now_unix_s: float) -> str:
    """Return for how long, from the shortest to the longest; "" where nobody knows."""
    ages = sorted(max(0.0, now_unix_s - row.since_unix_s) for row in rows if row.since_unix_s is not None)
    texts = [clock_text(age_s) for age_s in ages]
    return " to ".join(dict.fromkeys((texts[0], texts[-1]))) if texts else ""


def summary(rows: Sequence[NodeRow]) -> str:
    """Return how many nodes are in which state, and what those that are known draw."""
    states = sorted(row.state for row in rows)
    counts = ", ".join(f"{len(list(group))} {state}" for state, group in groupby(states))
    known = [row.watts for row in rows if row.watts is not None]
    drawn = f"; {power_text(sum(known))} drawn by {len(known)} of them" if known else ""
    return f"{counted(len(rows), 'node')}: {counts}{drawn}"

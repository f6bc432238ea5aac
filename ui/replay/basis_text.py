"""What the figures of a replay rest on, as an operator reads it: two lines of text, or objects of JSON."""

from typing import Any

from offpeak.text import counted
from sim_backend.case import Basis
from ui.watts_text import power_text


def basis_lines(basis: Basis) -> tuple[str, str]:
    """Return a line of the prices and one of the machine, each with what is assumed."""
    return f"prices   {prices_text(basis)}", f"machine  {machine_text(basis)}"


def prices_text(basis: Basis) -> str:
    """Return the prices in words."""
    return f"{basis.prices} ({basis.prices_assumed})" if basis.prices_assumed else basis.prices


def machine_text(basis: Basis) -> str:
    """Return the machine in words: nodes, processors per node, watts."""
    size = f"{counted(basis.nodes, 'node')} of {counted(basis.processors_per_node, 'processor')}"
    low_w, high_w = basis.busy_w
    busy = f"{low_w:,.0f} W" if round(low_w) == round(high_w) else f"{low_w:,.0f} to {high_w:,.0f} W"
    source = f" ({basis.busy_source})" if basis.busy_source else ""
    watts = f"a busy one draws {busy}{source}, an idle one {basis.idle_w:,.0f} W"
    in_all = f"{power_text(basis.nodes * high_w)} when all are busy"
    return f"{size}; {watts}; {in_all}" + (f"; assumed: {', '.join(basis.assumed)}" if basis.assumed else "")


def basis_json(basis: Basis) -> dict[str, Any]:
    """Return the same as objects, units in the keys."""
    return {
        "prices_in_words": basis.prices,
        "prices_assumed": basis.prices_assumed or None,
        "machine": {
            "nodes": basis.nodes,
            "processors_per_node": basis.processors_per_node,
            "busy_node_lowest_w": basis.busy_w[0],
            "busy_node_highest_w": basis.busy_w[1],
            "idle_node_w": basis.idle_w,
            "assumed": list(basis.assumed),
        },
    }

"""One node on a terminal: a line for each thing that is known of it."""

from offpeak.machines.inventory import InventoryNode
from ui.nodes.nodes_text import NodeRow, since_text
from ui.watts_text import power_text


def node_lines(row: NodeRow, machine: InventoryNode, *, now_unix_s: float) -> list[str]:
    """Return a line for each thing that is known."""
    since = since_text([row], now_unix_s)
    enrolled = machine.enrolled
    known = {
        "state": row.state + (f", for {since}, by {row.by}" if since else ""),
        "wanted": row.desired,
        "why": row.why,
        "draws": power_text(row.watts) if row.watts is not None else "",
        "hardware": machine.hardware.name,
        "sleeps by": ", ".join(rung.name for rung in machine.hardware.rungs),
        "bmc": machine.bmc or "",
        "rack": machine.rack or "",
        "enrolled": f"{enrolled.identity} on {enrolled.date}" if enrolled else "no",
    }
    return [f"{key + ':':<11}{value}" for key, value in {"node": row.node, **known}.items() if value]

"""Nodes that another inventory knows: what of them is taken over."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A node of another inventory: its kind, and its BMC's address and its rack where they are said."""

    node: str
    hardware: str
    bmc: str | None = None
    rack: str | None = None

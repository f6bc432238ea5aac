"""A cap on the machine's power for a while: demand response, a fault in the supply, a day with little cooling."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PowerCap:
    """All nodes together draw `cap_w` at most from `from_s` to `until_s` [Unix s]; `source` says who wants it."""

    from_s: int
    until_s: int
    cap_w: int
    reason: str
    source: str

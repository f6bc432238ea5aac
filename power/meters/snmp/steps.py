"""Units as PDUs and their MIBs write them: "10 W", "0.1 kWh", "kW", "0.1 A"."""

import re

_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)?\s*(m|k|M)?(Wh|W|J|A|V)\s*")
_PREFIX = {None: 1.0, "m": 1e-3, "k": 1e3, "M": 1e6}
_IN_BASE = {("W", "W"): 1.0, ("Wh", "J"): 3600.0, ("J", "J"): 1.0, ("A", "A"): 1.0, ("V", "V"): 1.0}


def step_of(text: str, base: str) -> float | None:
    """Return how many of the `base` ("W", "J", "A", "V") a unit is, "0.1 kWh" 360,000 J; None if it is no such unit."""
    match = _UNIT.fullmatch(text)
    if match is None or (match[3], base) not in _IN_BASE:
        return None
    return float(match[1] or 1) * _PREFIX[match[2]] * _IN_BASE[match[3], base]

"""Readings of power meters as JSON, units in the keys."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from power.meters.head_node import HeadNode
from power.meters.taken import Taken


def power_json(taken: Sequence[Taken], here: HeadNode | None) -> str:
    """Return all readings, and the troubles of the meters that gave none, and the load of this machine."""
    readings = [asdict(reading) for each in taken for reading in each.readings]
    troubles = [
        {"meter": each.meter, "way": each.way, "said": str(each.trouble), "hint": each.trouble.hint}
        for each in taken
        if each.trouble
    ]
    answer = {"readings": readings, "troubles": troubles} | ({"head_node": asdict(here)} if here else {})
    return json.dumps(answer, indent=2)

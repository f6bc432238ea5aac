"""When is there room behind a queue whose jobs all run for as long as they may, none before its turn?"""

import numpy as np

from offpeak.compiled import kernel
from offpeak.model.arrays import Float64, Int64
from sim_backend.engine.state import NEVER


@kernel
def room_after_s(
    now_s: int, free: int, held: Int64, end_s: Int64, size: Int64, estimate_s: Int64, units: Int64
) -> Float64:
    """Start the queue in its order as soon as there is room, and say when there is room behind it."""
    most = len(held) + len(size)
    ends, holds = np.empty(most, np.int64), np.empty(most, np.int64)
    ends[: len(held)], holds[: len(held)] = end_s, held
    listed, first, at_s = len(held), 0, now_s
    for job in range(len(size)):
        if size[job] == NEVER:
            continue
        while free < size[job]:
            at_s = max(at_s, ends[first])
            free += holds[first]
            first += 1
        free -= size[job]
        place = listed
        while place > first and ends[place - 1] > at_s + estimate_s[job]:
            ends[place], holds[place] = ends[place - 1], holds[place - 1]
            place -= 1
        ends[place], holds[place] = at_s + estimate_s[job], size[job]
        listed += 1
    wait_s = np.empty(len(units))
    for number in range(len(units)):
        room, event, from_s = free, first, at_s
        while room < units[number] and event < listed:
            room += holds[event]
            from_s = max(from_s, ends[event])
            event += 1
        wait_s[number] = from_s - now_s
    return wait_s

"""The heap of the running jobs' real ends: slots by (end, start number)."""

from offpeak.compiled import index, part
from sim_backend.engine.state import Int64, Slots


@part
def ends_before(slots: Slots, a: int, b: int) -> bool:
    """Say whether the job of slot `a` ends before that of slot `b`; of one second, the one that started first."""
    a_s = slots.end_s[index(a)]
    b_s = slots.end_s[index(b)]
    return bool(a_s < b_s or (a_s == b_s and slots.started[index(a)] < slots.started[index(b)]))


@part
def push(ends: Int64, length: int, slots: Slots, slot: int) -> None:
    """Add a slot to a heap of `length`."""
    child = length
    while child > 0:
        parent = (child - 1) >> 1
        above = ends[index(parent)]
        if not ends_before(slots, slot, above):
            break
        ends[index(child)] = above
        child = parent
    ends[index(child)] = slot


@part
def drop_first(ends: Int64, length: int, slots: Slots) -> None:
    """Take the first slot out of a heap of `length`."""
    last = length - 1
    slot = ends[index(last)]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        if child + 1 < last and ends_before(slots, ends[index(child + 1)], ends[index(child)]):
            child += 1
        below = ends[index(child)]
        if not ends_before(slots, below, slot):
            break
        ends[index(parent)] = below
        parent = child
    ends[index(parent)] = slot

"""The kernels of running statistics: an open hash table from categories to what was seen of them.

`slot_key` int64[capacity] holds the key of each slot, 0 where it is free; the capacity is a power of two and at least
one slot is free. `seen` float64[capacity, COMMON + OF_A_TARGET x targets] holds the statistics of the slot.
"""

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import in_place, index, kernel, part
from offpeak.model.arrays import Float64, Int64

COUNT, COMMON = 0, 1
LATEST, SECOND, THIRD, RECENT_MEAN, MEAN, SPREAD, OF_A_TARGET = 0, 1, 2, 3, 4, 5, 6
RECENT = 0.3
"""The weight of the latest value in the recent mean: values more than six back have a tenth of it or less."""

# Odd constants with well mixed bits (2^64 / golden ratio, and two of MurmurHash3's finaliser), as signed numbers.
STEP, MIX, MIX_AGAIN = -7046029254386353131, -49064778989728563, -4265267296055464877


@part
def key_of(category: Int64, columns: Int64, kind: int) -> int:
    """Return the key of the values in those columns of `category` (-1 ends them); `kind` keeps kinds apart."""
    key = (kind + 1) * STEP
    for at in range(len(columns)):
        if columns[at] >= 0:
            key = (key ^ category[columns[at]]) * MIX
            key ^= (key >> 33) & 0x7FFFFFFF
            key *= MIX_AGAIN
            key ^= (key >> 33) & 0x7FFFFFFF
    return key if key != 0 else 1


@part
def slot_of(slot_key: Int64, key: int) -> int:
    """Return the slot that holds the key, or the free one where it belongs."""
    last = len(slot_key) - 1
    slot = key & last
    while slot_key[index(slot)] != key and slot_key[index(slot)] != 0:
        slot = (slot + 1) & last
    return slot


@part
def add(seen: Float64, target: float, first: int) -> None:
    """Take one value into the statistics of one target, from column `first` on."""
    if seen[COUNT] == 0:
        seen[first + RECENT_MEAN] = seen[first + MEAN] = target
        seen[first + SPREAD] = 0.0
    off = target - seen[first + RECENT_MEAN]
    seen[first + SPREAD] += RECENT * (abs(off) - seen[first + SPREAD])
    seen[first + RECENT_MEAN] += RECENT * off
    seen[first + MEAN] += (target - seen[first + MEAN]) / (seen[COUNT] + 1)
    seen[first + THIRD] = seen[first + SECOND]
    seen[first + SECOND] = seen[first + LATEST]
    seen[first + LATEST] = target


@in_place
def remember(slot_key: Int64, seen: Float64, category: Int64, target: Float64, kinds: Int64) -> int:
    """Take in each row's targets float64[n, targets] under each kind of its categories int64[n, c]; return new keys.

    `kinds` int64[k, m] names for each kind the columns of `category` that make it up, -1 where there are fewer.
    """
    added = 0
    for row in range(len(category)):
        for kind in range(len(kinds)):
            key = key_of(category[row], kinds[kind], kind)
            slot = slot_of(slot_key, key)
            if slot_key[slot] == 0:
                slot_key[slot] = key
                seen[slot] = np.nan
                seen[slot, COUNT] = 0.0
                added += 1
            for each in range(target.shape[1]):
                add(seen[slot], target[row, each], COMMON + OF_A_TARGET * each)
            seen[slot, COUNT] += 1.0
    return added


@in_place
def look_up(slot_key: Int64, seen: Float64, category: Int64, kinds: Int64, found: Float64) -> None:
    """Fill `found` float64[n, k x fields] with the statistics of each kind; NaN and a count of 0 where none were."""
    fields = seen.shape[1]
    for row in range(len(category)):
        for kind in range(len(kinds)):
            slot = slot_of(slot_key, key_of(category[row], kinds[kind], kind))
            first = kind * fields
            known = slot_key[slot] != 0
            for field in range(fields):
                found[row, first + field] = seen[slot, field] if known else np.nan
            if not known:
                found[row, first + COUNT] = 0.0


@kernel
def enlarged(slot_key: Int64, seen: Float64, capacity: int) -> tuple[Int64, NDArray[np.float64]]:
    """Return the same table with more slots."""
    wider_key = np.zeros(capacity, np.int64)
    wider_seen = np.full((capacity, seen.shape[1]), np.nan)
    for slot in range(len(slot_key)):
        if slot_key[slot] != 0:
            at = slot_of(wider_key, slot_key[slot])
            wider_key[at] = slot_key[slot]
            wider_seen[at] = seen[slot]
    return wider_key, wider_seen

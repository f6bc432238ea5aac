"""Running statistics of categories: the past jobs of the same user, or user and size, and so on.

This is how trees see categories: not as a column for each of thousands of users, but as the latest values and means of
similar jobs (target statistics in time order; Prokhorenkova et al., "CatBoost", NeurIPS 2018, section 3).

The kernels keep an open hash table from categories to their statistics. `slot_key` int64[capacity] holds the key of
each slot, 0 if it is free; the capacity is a power of two and at least one slot is free. `seen` float64[capacity,
COMMON + OF_A_TARGET x targets] holds the statistics of the slot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offpeak.bits import product64
from offpeak.compiled import in_place, index, kernel, part, python_first
from offpeak.model.arrays import Float64, Int64
from offpeak.predictors.port import State, check_state

COUNT, COMMON = 0, 1
LATEST, SECOND, THIRD, RECENT_MEAN, MEAN, SPREAD, OF_A_TARGET = 0, 1, 2, 3, 4, 5, 6
RECENT = 0.3
"""The weight of the latest value in the recent mean: values more than six back have a tenth of it or less."""

# Odd constants with well mixed bits (2^64 / golden ratio, and two of MurmurHash3's finaliser), as signed numbers.
STEP, MIX, MIX_AGAIN = -7046029254386353131, -49064778989728563, -4265267296055464877


@part
def category_key(category: Int64, columns: Int64, kind: int) -> int:
    """Return the key of the values in those columns of `category` (-1 ends them); `kind` keeps kinds apart."""
    key = product64(kind + 1, STEP)
    for at in range(len(columns)):
        if columns[at] >= 0:
            key = product64(key ^ category[columns[at]], MIX)
            key ^= (key >> 33) & 0x7FFFFFFF
            key = product64(key, MIX_AGAIN)
            key ^= (key >> 33) & 0x7FFFFFFF
    return key if key != 0 else 1


@part
def find_slot(slot_key: Int64, key: int) -> int:
    """Return the slot that holds the key, or the free one where it belongs."""
    last = len(slot_key) - 1
    slot = key & last
    while slot_key[index(slot)] != key and slot_key[index(slot)] != 0:
        slot = (slot + 1) & last
    return slot


class CategoryTable(NamedTuple):
    """The hash table, and the kinds of categories that it holds: `kinds` int64[k, m] names for each kind the columns
    of `category` that make it up, -1 if there are fewer.
    """

    slot_key: Int64
    seen: Float64
    kinds: Int64


@part
def add_value(seen: Float64, target: float, first: int) -> None:
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


@part
def remember_row(table: CategoryTable, category: Int64, target: Float64) -> int:
    """Take in the targets of one row under each kind of its categories; return new keys."""
    slot_key, seen, kinds = table
    added = 0
    for kind in range(len(kinds)):
        key = category_key(category, kinds[kind], kind)
        slot = find_slot(slot_key, key)
        if slot_key[slot] == 0:
            slot_key[slot] = key
            seen[slot] = np.nan
            seen[slot, COUNT] = 0.0
            added += 1
        for each in range(len(target)):
            add_value(seen[slot], target[each], COMMON + OF_A_TARGET * each)
        seen[slot, COUNT] += 1.0
    return added


@python_first
@in_place
def remember(table: CategoryTable, category: Int64, target: Float64) -> int:
    """Take in each row's targets float64[n, targets] under each kind of its categories int64[n, c]; return new keys."""
    added = 0
    for row in range(len(category)):
        added += remember_row(table, category[row], target[row])
    return added


@python_first
@in_place
def look_up(slot_key: Int64, seen: Float64, category: Int64, kinds: Int64, found: Float64) -> None:
    """Fill `found` float64[n, k x fields] with the statistics of each kind; NaN and a count of 0 if none were."""
    fields = seen.shape[1]
    for row in range(len(category)):
        for kind in range(len(kinds)):
            slot = find_slot(slot_key, category_key(category[row], kinds[kind], kind))
            first = kind * fields
            known = slot_key[slot] != 0
            for field in range(fields):
                found[row, first + field] = seen[slot, field] if known else np.nan
            if not known:
                found[row, first + COUNT] = 0.0


@python_first
@kernel
def enlarged(slot_key: Int64, seen: Float64, capacity: int) -> tuple[Int64, NDArray[np.float64]]:
    """Return the same table with more slots."""
    wider_key = np.zeros(capacity, np.int64)
    wider_seen = np.full((capacity, seen.shape[1]), np.nan)
    for slot in range(len(slot_key)):
        if slot_key[slot] != 0:
            at = find_slot(wider_key, slot_key[slot])
            wider_key[at] = slot_key[slot]
            wider_seen[at] = seen[slot]
    return wider_key, wider_seen


FIRST_CAPACITY = 1024
ROWS_AT_ONCE = 1024
NONE = -1


class RunningStatistics:
    """The statistics of each kind of category; a kind is a tuple of columns of the categories."""

    def __init__(self, kinds: tuple[tuple[int, ...], ...], *, targets: int) -> None:
        most = max(len(kind) for kind in kinds)
        self._kinds: Int64 = np.array([(*kind, *[NONE] * (most - len(kind))) for kind in kinds], np.int64)
        self._slot_key: Int64 = np.zeros(FIRST_CAPACITY, np.int64)
        self._seen: Float64 = np.full((FIRST_CAPACITY, COMMON + OF_A_TARGET * targets), np.nan)
        self._used = 0
        self.columns: int = len(kinds) * self._seen.shape[1]

    def learn(self, category: Int64, target: Float64) -> None:
        """Learn rows one after the other: categories int64[n, c], finite targets float64[n, targets]."""
        for first in range(0, len(category), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            self.make_room(len(category[rows]))
            self.note_keys(remember(self.table, category[rows], target[rows]))

    @property
    def table(self) -> CategoryTable:
        """The table until the next `make_room`; a kernel that adds keys to it must be followed by `note_keys`."""
        return CategoryTable(self._slot_key, self._seen, self._kinds)

    def note_keys(self, added: int) -> None:
        """Count the keys that a kernel has added."""
        self._used += added

    def make_room(self, rows: int) -> None:
        """Enlarge the table if it has no room for the keys of so many rows."""
        # Half of the slots stay free, so that a key is found after a step or two.
        needed = 2 * (self._used + rows * len(self._kinds))
        if needed > len(self._slot_key):
            capacity = 1 << (needed - 1).bit_length()
            self._slot_key, self._seen = enlarged(self._slot_key, self._seen, capacity)

    def of(self, category: Int64) -> Float64:
        """Return float64[n, kinds x fields], the fields in the order of `running_kernel`; NaN if nothing was."""
        found = np.empty((len(category), self.columns))
        look_up(self._slot_key, self._seen, category, self._kinds, found)
        return found

    def state(self) -> State:
        """Return the table."""
        return {"slot_key": self._slot_key.copy(), "seen": self._seen.copy()}

    def restore(self, state: State) -> None:
        """Restore a table. Raises ValueError unless it has this width and a look-up in it ends."""
        slot_key, seen = np.array(state["slot_key"], np.int64), np.array(state["seen"], np.float64, order="C")
        used, capacity = int(np.count_nonzero(slot_key)), len(slot_key)
        fits = seen.shape == (capacity, self._seen.shape[1]) and capacity.bit_count() == 1
        check_state(is_so=fits and used < capacity, what="a table of another shape")
        self._slot_key, self._seen, self._used = slot_key, seen, used

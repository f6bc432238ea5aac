"""Bits of 64-bit words and of bitmaps: machine instructions that numba does not offer by name."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from offpeak.compiled import index, part


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), emit


@intrinsic
def _highest_bit(typing_context: Any, word: Any) -> Any:  # noqa: ARG001

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        above = builder.ctlz(arguments[0], cgutils.true_bit)
        return builder.sub(above.type(63), above)

    return types.int64(types.uint64), emit


popcount = cast(Callable[[np.uint64], int], _popcount)
"""Return the number of set bits of a word."""

lowest_bit = cast(Callable[[np.uint64], int], _lowest_bit)
"""Return the index of the lowest set bit of a word that is not 0."""

highest_bit = cast(Callable[[np.uint64], int], _highest_bit)
"""Return the index of the highest set bit of a word that is not 0."""

NO_BIT = -1


def bitmap(chosen: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return the true values as a bitmap of 64-bit words."""
    padded = np.zeros(-(-len(chosen) // 64) * 64, dtype=np.uint8)
    padded[: len(chosen)] = chosen
    return np.packbits(padded, bitorder="little").view(np.uint64)


@part
def set_bit(bitmap: NDArray[np.uint64], at: int, value: bool) -> None:
    """Set or clear the bit at `at`."""
    word = index(at >> 6)
    bit = np.uint64(1) << np.uint64(at & 63)
    if value:
        bitmap[word] |= bit
    else:
        bitmap[word] &= ~bit


@part
def next_bit(bitmap: NDArray[np.uint64], first: int) -> int:
    """Return the first set bit at or behind `first`, NO_BIT if there is none."""
    word = first >> 6
    if word >= len(bitmap):
        return NO_BIT
    bits = bitmap[index(word)] & (~np.uint64(0) << np.uint64(first & 63))
    while bits == np.uint64(0):
        word += 1
        if word >= len(bitmap):
            return NO_BIT
        bits = bitmap[index(word)]
    return int(word * 64 + lowest_bit(bits))


@part
def previous_bit(bitmap: NDArray[np.uint64], last: int) -> int:
    """Return the last set bit at or before `last`, NO_BIT if there is none."""
    if last < 0:
        return NO_BIT
    word = last >> 6
    bits = bitmap[index(word)] & (~np.uint64(0) >> np.uint64(63 - (last & 63)))
    while bits == np.uint64(0):
        word -= 1
        if word < 0:
            return NO_BIT
        bits = bitmap[index(word)]
    return int(word * 64 + highest_bit(bits))

"""Bits of 64-bit words and of bitmaps: machine instructions that numba does not offer by name."""

import numpy as np
from numpy.typing import NDArray

from offpeak.compiled import index, instruction, part


@instruction
def popcount(word: np.uint64) -> int:
    """Return the number of set bits of a word."""
    return int(word).bit_count()


@instruction
def lowest_bit(word: np.uint64) -> int:
    """Return the index of the lowest set bit of a word that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


@instruction
def highest_bit(word: np.uint64) -> int:
    """Return the index of the highest set bit of a word that is not 0."""
    return int(word).bit_length() - 1


@instruction
def product64(one: int, other: int) -> int:
    """Return the lowest 64 bits of the product of two signed words, as a signed word."""
    low = int(one) * int(other) & 0xFFFF_FFFF_FFFF_FFFF
    return low - (low >> 63 << 64)


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

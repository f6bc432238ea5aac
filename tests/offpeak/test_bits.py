"""Bits of words and bitmaps, against Python's own integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offpeak.bits import NO_BIT, highest_bit, lowest_bit, next_bit, popcount, previous_bit, set_bit
from offpeak.compiled import kernel

ARGUMENTS = st.integers(0, 2**64 - 1)


@kernel
def of_bits(word):
    return popcount(word), lowest_bit(word), highest_bit(word)


@kernel
def bits_of(bitmap):
    upwards, downwards = [NO_BIT], [NO_BIT]
    at = next_bit(bitmap, 0)
    while at != NO_BIT:
        upwards.append(at)
        at = next_bit(bitmap, at + 1)
    at = previous_bit(bitmap, 64 * len(bitmap) - 1)
    while at != NO_BIT:
        downwards.append(at)
        at = previous_bit(bitmap, at - 1)
    return upwards[1:], downwards[1:]


@kernel
def write(bitmap, at, value):
    set_bit(bitmap, at, value)


@given(ARGUMENTS.filter(bool))
def test_of_a_name(word: int) -> None:
    assert of_bits(np.uint64(word)) == (word.bit_count(), (word & -word).bit_length() - 1, word.bit_length() - 1)


@given(st.lists(ARGUMENTS, min_size=1, max_size=4))
def test_all_bits_are_found_in_order(arguments: list[int]) -> None:
    expected = [64 * at + bit for at, word in enumerate(arguments) for bit in range(64) if word >> bit & 1]
    upwards, downwards = bits_of(np.array(arguments, dtype=np.uint64))
    assert upwards == expected
    assert downwards == expected[::-1]


@given(st.sets(st.integers(0, 255)), st.integers(0, 255), st.booleans())
def test_a_bit_is_set_or_cleared(bits: set[int], at: int, value: bool) -> None:
    bitmap = np.zeros(4, dtype=np.uint64)
    for bit in bits:
        write(bitmap, bit, True)
    write(bitmap, at, value)
    assert set(bits_of(bitmap)[0]) == (bits | {at} if value else bits - {at})

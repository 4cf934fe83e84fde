"""Ids by the million: a keyed hash of texts, and an index by it.

Texts come as Arrow keeps them: their bytes one after another, and where each of them starts. The
hash is SipHash-2-4 of 128 bits, of which 96 are kept: with a key that nobody knows beforehand, two
texts share them once in 10^28 pairs, whoever chose the texts.

A slot of the index is two words: the first half of the hash, and 32 more bits of it with the number
of the text. The first is 0 in an empty slot.
"""

from typing import Any

import numpy as np
from numba import njit, uint64

from seqbatch.core.arrays import AnyArray, Bytes, Integers
from seqbatch.core.kernels.compiling import OPTIONS

HIGH, LOW = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)


@njit(inline="always", **OPTIONS)
def _turned(word: Any, bits: int) -> Any:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@njit(inline="always", **OPTIONS)
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a += b
    b = _turned(b, 13) ^ a
    a = _turned(a, 32)
    c += d
    d = _turned(d, 16) ^ c
    a += d
    d = _turned(d, 21) ^ a
    c += b
    b = _turned(b, 17) ^ c
    c = _turned(c, 32)
    return a, b, c, d


@njit(inline="always", **OPTIONS)
def _whole(data: Bytes, place: int) -> Any:
    """Return eight bytes as one word; spelled out, they are loaded at once."""
    low = uint64(data[place]) | uint64(data[place + 1]) << uint64(8)
    low |= uint64(data[place + 2]) << uint64(16) | uint64(data[place + 3]) << uint64(24)
    high = uint64(data[place + 4]) | uint64(data[place + 5]) << uint64(8)
    high |= uint64(data[place + 6]) << uint64(16) | uint64(data[place + 7]) << uint64(24)
    return low | high << uint64(32)


@njit(**OPTIONS)
def siphash(data: Bytes, start: int, stop: int, key: AnyArray) -> tuple[int, int]:
    """Return the 128 bits of one text, as two words."""
    a = key[0] ^ uint64(0x736F6D6570736575)
    b = key[1] ^ uint64(0x646F72616E646F6D) ^ uint64(0xEE)
    c = key[0] ^ uint64(0x6C7967656E657261)
    d = key[1] ^ uint64(0x7465646279746573)
    length = stop - start
    place = start
    for _ in range(length // 8 + 1):
        if stop - place >= 8:
            word = _whole(data, place)
        else:
            word = uint64(length & 0xFF) << uint64(56)
            for byte in range(stop - place):
                word |= uint64(data[place + byte]) << uint64(8 * byte)
        place += 8
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
    c ^= uint64(0xEE)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= uint64(0xDD)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d


@njit(**OPTIONS)
def hash_texts(data: Bytes, offsets: Integers, key: AnyArray, out: AnyArray) -> None:
    """Hash texts: the words of a slot that has no number yet, shape (n, 2)."""
    for row in range(len(out)):
        first, second = siphash(data, offsets[row], offsets[row + 1], key)
        out[row, 0] = max(first, uint64(1))
        out[row, 1] = second & HIGH


@njit(inline="always", **OPTIONS)
def _slot(slots: AnyArray, first: Any, second: Any) -> Any:
    """Return the slot of a text, or the empty one where it would be."""
    mask = uint64(len(slots) - 1)
    place = first & mask
    while slots[place, 0] != 0:
        if slots[place, 0] == first and (slots[place, 1] & HIGH) == second:
            break
        place = (place + uint64(1)) & mask
    return place


@njit(**OPTIONS)
def find(slots: AnyArray, hashes: AnyArray, out: Integers) -> None:
    """Look texts up: their numbers, -1 where there is none."""
    for row in range(len(hashes)):
        place = _slot(slots, hashes[row, 0], hashes[row, 1])
        out[row] = -1 if slots[place, 0] == 0 else np.int64(slots[place, 1] & LOW)


@njit(**OPTIONS)
def add(slots: AnyArray, hashes: AnyArray, numbers: Integers) -> int:
    """Add texts with their numbers up to the first that is there; return how many were added."""
    for row in range(len(hashes)):
        place = _slot(slots, hashes[row, 0], hashes[row, 1])
        if slots[place, 0] != 0:
            return row
        slots[place, 0] = hashes[row, 0]
        slots[place, 1] = hashes[row, 1] | uint64(numbers[row])
    return len(hashes)


@njit(**OPTIONS)
def take_back(slots: AnyArray, hashes: AnyArray) -> None:
    """Take back the texts that were added last, the last first: no other moved for them."""
    for row in range(len(hashes) - 1, -1, -1):
        slots[_slot(slots, hashes[row, 0], hashes[row, 1]), 0] = 0


@njit(**OPTIONS)
def move(slots: AnyArray, larger: AnyArray) -> None:
    """Put all slots into a larger index."""
    for row in range(len(slots)):
        if slots[row, 0] != 0:
            place = _slot(larger, slots[row, 0], slots[row, 1] & HIGH)
            larger[place, 0] = slots[row, 0]
            larger[place, 1] = slots[row, 1]

"""MD5 of very many short texts that begin alike, as databases compute it.

Texts come as Arrow keeps them: their bytes one after another, and where each of them starts. What
they begin with is one block of 64 bytes, whose state is computed once.
"""

from typing import Any

import numpy as np
from numba import njit, uint32, uint64

from seqbatch.core.arrays import AnyArray, Bytes, Integers
from seqbatch.core.kernels.compiling import OPTIONS

BLOCK = 64
#: What the state begins with, and the constants and rotations of the 64 steps: RFC 1321.
BEGIN = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], dtype=np.uint32)
SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint64).astype(np.uint32)
TURNS = np.array(
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], dtype=np.uint32
)


@njit(**OPTIONS)
def absorb(state: AnyArray, words: AnyArray) -> None:
    """Take one block of 16 words into a state."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    for step in range(64):
        part, place = step // 16, step
        if part == 0:
            mixed = (b & c) | (~b & d)
        elif part == 1:
            mixed, place = (d & b) | (~d & c), 5 * step + 1
        elif part == 2:
            mixed, place = b ^ c ^ d, 3 * step + 5
        else:
            mixed, place = c ^ (b | ~d), 7 * step
        mixed = uint32(mixed + a + SINES[step] + words[place % 16])
        turn = TURNS[part, step % 4]
        a, d, c = d, c, b
        b = uint32(b + uint32(uint32(mixed << turn) | uint32(mixed >> uint32(32 - turn))))
    state[0] = uint32(state[0] + a)
    state[1] = uint32(state[1] + b)
    state[2] = uint32(state[2] + c)
    state[3] = uint32(state[3] + d)


@njit(inline="always", **OPTIONS)
def _load(data: Bytes, start: int, stop: int, ends: bool, words: AnyArray) -> None:
    """Fill a block with up to 64 bytes, the mark that ends a message after them, and zeros."""
    words[:] = 0
    for place in range(start, stop):
        at = place - start
        words[at // 4] |= uint32(data[place]) << uint32(8 * (at % 4))
    if ends:
        at = stop - start
        words[at // 4] |= uint32(0x80) << uint32(8 * (at % 4))


@njit(inline="always", **OPTIONS)
def _swapped(word: Any) -> Any:
    """Return a word with its four bytes in the other order."""
    low = uint64((word & uint32(0xFF)) << uint32(24)) | uint64((word & uint32(0xFF00)) << uint32(8))
    return low | uint64((word >> uint32(8)) & uint32(0xFF00)) | uint64(word >> uint32(24))


@njit(**OPTIONS)
def hash_after(begun: AnyArray, data: Bytes, offsets: Integers, out: AnyArray) -> None:
    """Hash texts that stand after one block; two words each, the digits in their order."""
    words, state = np.empty(16, dtype=np.uint32), np.empty(4, dtype=np.uint32)
    for row in range(len(out)):
        start, stop = offsets[row], offsets[row + 1]
        bits = uint64(BLOCK + stop - start) * uint64(8)
        state[:] = begun
        # The last byte of all is followed by a mark, zeros, and eight bytes of the length.
        for block in range((stop - start + 8) // BLOCK + 1):
            low = start + block * BLOCK
            ends = low <= stop and stop < low + BLOCK
            _load(data, min(low, stop), min(stop, low + BLOCK), ends, words)
            if stop + 8 < low + BLOCK:
                words[14] = uint32(bits & uint64(0xFFFFFFFF))
                words[15] = uint32(bits >> uint64(32))
            absorb(state, words)
        out[row, 0] = (_swapped(state[0]) << uint64(32)) | _swapped(state[1])
        out[row, 1] = (_swapped(state[2]) << uint64(32)) | _swapped(state[3])

"""MD5 of very many short texts that begin alike, as databases compute it.

Texts come as Arrow keeps them: their bytes one after another, and where each of them starts. What
they begin with is one block of 64 bytes, whose state is computed once. Texts are hashed side by
side, each in a lane of the vector registers.
"""

from typing import Any

import numpy as np
from numba import njit, uint32, uint64

from seqbatch.core.arrays import AnyArray, Bytes, Integers
from seqbatch.core.kernels.compiling import OPTIONS

BLOCK = 64
#: Texts that are hashed side by side.
LANES = 64
#: What the state begins with, and the constants and rotations of the 64 steps: RFC 1321.
BEGIN = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], dtype=np.uint32)
SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint64).astype(np.uint32)
TURNS = np.array(
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], dtype=np.uint32
)


@njit(inline="always", **OPTIONS)
def _turned(word: Any, turn: Any, added: Any) -> Any:
    """Return a word with its bits turned, and another added to it."""
    word = uint32(word)
    return uint32(added + uint32(uint32(word << turn) | uint32(word >> uint32(32 - turn))))


@njit(**OPTIONS)
def absorb(state: AnyArray, words: AnyArray) -> None:
    """Take a block into the state of each lane: (4, lanes) and (16, lanes)."""
    before, lanes = state.copy(), state.shape[1]
    for step in range(64):
        part, sine, turn = step // 16, SINES[step], TURNS[step // 16, step % 4]
        # Each step moves the four words of the state on by one place.
        a, b = state[-step % 4], state[(1 - step) % 4]
        c, d = state[(2 - step) % 4], state[(3 - step) % 4]
        if part == 0:
            w = words[step % 16]
            for i in range(lanes):
                mixed = (b[i] & c[i]) | (~b[i] & d[i])
                a[i] = _turned(mixed + a[i] + sine + w[i], turn, b[i])
        elif part == 1:
            w = words[(5 * step + 1) % 16]
            for i in range(lanes):
                mixed = (d[i] & b[i]) | (~d[i] & c[i])
                a[i] = _turned(mixed + a[i] + sine + w[i], turn, b[i])
        elif part == 2:
            w = words[(3 * step + 5) % 16]
            for i in range(lanes):
                a[i] = _turned((b[i] ^ c[i] ^ d[i]) + a[i] + sine + w[i], turn, b[i])
        else:
            w = words[7 * step % 16]
            for i in range(lanes):
                a[i] = _turned((c[i] ^ (b[i] | ~d[i])) + a[i] + sine + w[i], turn, b[i])
    state += before


@njit(inline="always", **OPTIONS)
def _load(data: Bytes, start: int, stop: int, low: int, words: AnyArray) -> None:
    """Fill one lane of a block that begins at `low`, whose text is followed by its end.

    The last byte of all is followed by a mark, zeros, and eight bytes of the length.
    """
    for place in range(min(low, stop), min(stop, low + BLOCK)):
        at = place - low
        words[at // 4] |= uint32(data[place]) << uint32(8 * (at % 4))
    if low <= stop and stop < low + BLOCK:
        at = stop - low
        words[at // 4] |= uint32(0x80) << uint32(8 * (at % 4))
    if stop + 8 < low + BLOCK:
        bits = uint64(BLOCK + stop - start) * uint64(8)
        words[14] = uint32(bits & uint64(0xFFFFFFFF))
        words[15] = uint32(bits >> uint64(32))


@njit(inline="always", **OPTIONS)
def _swapped(word: Any) -> Any:
    """Return a word with its four bytes in the other order."""
    low = uint64((word & uint32(0xFF)) << uint32(24)) | uint64((word & uint32(0xFF00)) << uint32(8))
    return low | uint64((word >> uint32(8)) & uint32(0xFF00)) | uint64(word >> uint32(24))


@njit(**OPTIONS)
def hash_after(begun: AnyArray, data: Bytes, offsets: Integers, out: AnyArray) -> None:
    """Hash texts that stand after one block; two words each, the digits in their order."""
    words, state = np.empty((16, LANES), dtype=np.uint32), np.empty((4, LANES), dtype=np.uint32)
    for first in range(0, len(out), LANES):
        starts = offsets[first : min(first + LANES, len(out))]
        stops = offsets[first + 1 : min(first + LANES, len(out)) + 1]
        state[:] = begun
        # Lanes whose text is over go on with zeros; what they compute is not read.
        for block in range(((stops - starts).max() + 8) // BLOCK + 1):
            words[:] = 0
            for lane in range(len(starts)):
                low = starts[lane] + block * BLOCK
                _load(data, starts[lane], stops[lane], low, words[:, lane])
            absorb(state, words)
            for lane in range(len(starts)):
                if (stops[lane] - starts[lane] + 8) // BLOCK == block:
                    a, b, c, d = state[0, lane], state[1, lane], state[2, lane], state[3, lane]
                    out[first + lane, 0] = (_swapped(a) << uint64(32)) | _swapped(b)
                    out[first + lane, 1] = (_swapped(c) << uint64(32)) | _swapped(d)

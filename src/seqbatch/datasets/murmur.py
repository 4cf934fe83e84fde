"""MurmurHash3 of many texts of one length at once, in whole-number arithmetic of any library."""

from collections.abc import Sequence

from seqbatch.core.arrays import Array

_LOW = 0xFFFFFFFF


def murmur3(text: Sequence[Array]) -> Array:
    """Return the signed 32-bit hashes of texts with seed 0.

    Parameters
    ----------
    text
        The bytes at each place: one number for all texts, or an int64 array with one for each.

    Examples
    --------
    >>> import numpy as np
    >>> murmur3([*b"device_type=", np.array([*b"10"])])  # of device_type=1 and device_type=0
    array([1643934509, 1521219419])
    """
    state: Array = 0
    for start in range(0, len(text), 4):
        word = text[start : start + 4]
        state = state ^ _mixed(sum(byte << (8 * place) for place, byte in enumerate(word)))
        if len(word) == 4:
            state = (_turned(state, 13) * 5 + 0xE6546B64) & _LOW
    state = state ^ len(text)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _LOW
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _LOW
    state = state ^ (state >> 16)
    return state - ((state >> 31) << 32)


def _mixed(word: Array) -> Array:
    word = (word * 0xCC9E2D51) & _LOW
    return (_turned(word, 15) * 0x1B873593) & _LOW


def _turned(word: Array, by: int) -> Array:
    """Rotate 32 bits to the left."""
    return ((word << by) & _LOW) | (word >> (32 - by))

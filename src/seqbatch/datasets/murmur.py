"""MurmurHash3 of many texts of one length at once, in whole-number arithmetic of any library."""

from collections.abc import Sequence

import numpy as np

from seqbatch.core.arrays import Array, Integers

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


def murmur3_of(texts: Sequence[str]) -> Integers:
    """Return the signed 32-bit hashes of texts of any lengths with seed 0.

    Examples
    --------
    >>> murmur3_of(["device_type=1", "C1=1005"])
    array([1643934509,  634513031])
    """
    written = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, written), dtype=np.int64, count=len(written))
    hashes = np.empty(len(written), dtype=np.int64)
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        joined = b"".join([written[place] for place in places])
        columns = np.frombuffer(joined, np.uint8).reshape(len(places), length).astype(np.int64).T
        hashes[places] = murmur3(list(columns))
    return hashes


def _mixed(word: Array) -> Array:
    word = (word * 0xCC9E2D51) & _LOW
    return (_turned(word, 15) * 0x1B873593) & _LOW


def _turned(word: Array, by: int) -> Array:
    """Rotate 32 bits to the left."""
    return ((word << by) & _LOW) | (word >> (32 - by))

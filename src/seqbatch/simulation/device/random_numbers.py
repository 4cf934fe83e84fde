"""Counter-based random numbers: functions of a key and a counter, in integer arithmetic.

Number `counter` of the stream `key` is the SplitMix64 mix of key + counter times the golden ratio.
There is no state: any number can be computed anywhere, in any order and in blocks of any size.
NumPy and PyTorch compute the same integers; normals derived from them may differ in the last bits
of the logarithm and the cosine.
"""

import math

from seqbatch.core.arrays import Array, namespace

#: Signed, because GPU libraries have no unsigned integers; products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


def bits(key: Array, counter: Array) -> Array:
    """Return 64 random bits for each pair of a key and a counter, as int64.

    >>> import numpy as np
    >>> bits(np.array([0]), np.array([1])) % 2**16  # SplitMix64 of seed 0: 0xE220A8397B1DCDAF
    array([52655])
    """
    mixed = key + counter * GOLDEN
    mixed = (mixed ^ _shifted(mixed, 30)) * FIRST
    mixed = (mixed ^ _shifted(mixed, 27)) * SECOND
    return mixed ^ _shifted(mixed, 31)


def uniforms(random: Array) -> Array:
    """Return numbers in [0, 1) from the upper 53 bits."""
    xp = namespace(random)
    return xp.astype(_shifted(random, 11), xp.float64) * 2.0**-53


def normals(random: Array) -> Array:
    """Return standard normals by Box-Muller: the radius from 32 bits, the angle from 32."""
    xp = namespace(random)
    upper = xp.astype(_shifted(random, 32) + 1, xp.float64) * 2.0**-32
    lower = xp.astype(random & (2**32 - 1), xp.float64) * (2 * math.pi * 2.0**-32)
    return xp.sqrt(-2.0 * xp.log(upper)) * xp.cos(lower)


def _shifted(value: Array, by: int) -> Array:
    """Shift right and fill with zeros, not with the sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)

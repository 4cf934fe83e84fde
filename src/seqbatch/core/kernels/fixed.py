"""Rounding to whole numbers, cut into halves whose products floating point adds exactly."""

import math

from numba import njit

from seqbatch.core.arrays import Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def split(
    rows: Floats, rewards: Floats, factors: Floats, order: Integers, most: float, half: float,
    high: Floats, low: Floats,
) -> int:  # fmt: skip
    """Round rows and their rewards, in the order given, and cut each number into two halves.

    Returns the place in the order of the first row that has a number larger than `most` once it is
    scaled, -1 where none has. Half is added and the rest cut off: databases round halves in ways of
    their own.
    """
    dim, share = rows.shape[1], 1.0 / half
    for place in range(len(order)):
        row = order[place]
        for column in range(dim + 1):
            value = rewards[row] if column == dim else rows[row, column]
            scaled = value * factors[column]
            if not abs(scaled) <= most:
                return place
            whole = math.floor(scaled + 0.5)
            # A power of two: exact.
            upper = math.floor(whole * share)
            high[place, column] = upper
            low[place, column] = whole - upper * half
    return -1

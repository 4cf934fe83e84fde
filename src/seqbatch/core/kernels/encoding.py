"""Columns of a file to columns of the model, in one pass each."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def scale(
    values: Floats, low: float, high: float, fill: float, mean: float, sd: float, out: Floats
) -> None:
    """Bound numbers, fill those that are missing (NaN), and scale them."""
    for row in range(len(values)):
        value = values[row]
        if np.isnan(value):
            value = fill
        else:
            value = value if value > low else low
            value = value if value < high else high
        out[row] = (value - mean) / sd


@njit(boundscheck=True, **OPTIONS)
def look_up(table: Integers, places: AnyArray, out: Integers) -> None:
    """Put what a table says of each row's place; a place that is not there raises IndexError."""
    for row in range(len(places)):
        out[row] = table[places[row]]


@njit(boundscheck=True, **OPTIONS)
def mark(out: Floats, places: Integers) -> None:
    """Put a 1 at the place of each row; one that is not there raises IndexError."""
    for row in range(len(places)):
        out[row, places[row]] = 1.0

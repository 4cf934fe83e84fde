"""Columns of a file to columns of the model, in one pass each."""

import numpy as np
from numba import njit

from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.core.kernels.compiling import OPTIONS


@njit(**OPTIONS)
def scaled(value: float, low: float, high: float, fill: float, mean: float, sd: float) -> float:
    """Return a number bounded, filled where it is missing (NaN), and scaled."""
    if np.isnan(value):
        value = fill
    else:
        value = value if value > low else low
        value = value if value < high else high
    return (value - mean) / sd


@njit(**OPTIONS)
def scale(
    values: Floats, low: float, high: float, fill: float, mean: float, sd: float, out: Floats
) -> None:
    """Bound numbers, fill those that are missing, and scale them."""
    for row in range(len(values)):
        out[row] = scaled(values[row], low, high, fill, mean, sd)


@njit(**OPTIONS)
def scale_columns(columns: Floats, rules: Floats) -> None:
    """Scale columns where they lie, each by rules of its own: those of :func:`scale`, in order."""
    for place in range(len(columns)):
        own, (low, high, fill, mean, sd) = columns[place], rules[place]
        for row in range(len(own)):
            own[row] = scaled(own[row], low, high, fill, mean, sd)


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

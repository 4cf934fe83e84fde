"""Columns to numbers: levels, indicators, standardised columns, rows of unit length."""

import numpy as np
import polars as pl

from seqbatch.core.arrays import Floats, Integers


def levels(column: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """Return a column's distinct values in sorted order, and the place of each row's among them.

    >>> levels(pl.Series(["b", "?", "b"]))
    (('?', 'b'), array([1, 0, 1]))
    """
    values = column.unique().sort()
    places = np.arange(len(values), dtype=np.int64)
    index = column.replace_strict(values, pl.Series(places), return_dtype=pl.Int64)
    return tuple(str(value) for value in values), index.to_numpy().astype(np.int64)


def one_hot(column: pl.Series) -> tuple[Floats, tuple[str, ...]]:
    """Return an indicator for every level, none dropped, and their names.

    >>> one_hot(pl.Series("odor", ["n", "a"]))
    (array([[0., 1.],
           [1., 0.]]), ('odor=a', 'odor=n'))
    """
    names, index = levels(column)
    indicators = np.zeros((len(index), len(names)))
    indicators[np.arange(len(index)), index] = 1.0
    return indicators, tuple(f"{column.name}={name}" for name in names)


def standardised(values: Floats) -> Floats:
    """Return columns of mean 0 and population standard deviation 1; constant ones become 0.

    >>> standardised(np.array([[1.0, 0.1], [3.0, 0.1]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    centred = values - values.mean(axis=0)
    # The mean of equal numbers may miss them by a rounding, which must not be scaled up.
    constant = values.min(axis=0) == values.max(axis=0)
    centred[:, constant] = 0.0
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    result: Floats = centred / np.where(deviation > 0, deviation, 1.0)
    return result


def unit_rows(values: Floats) -> Floats:
    """Return every row scaled to unit length; a row of zeros stays as it is.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    result: Floats = values / np.where(lengths > 0, lengths, 1.0)[:, None]
    return result

"""Rows of hashed categories in one byte a column, and the regression on them.

A category "column=value" is hashed to one of d places with a sign, as scikit-learn's FeatureHasher
does it: place |h| mod d, sign that of h, where h is the signed 32-bit MurmurHash3. A row's vector
is the sum over its columns, times 1/sqrt(d).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Statistics, arguments, kernels, least_squares
from seqbatch.core.arrays import Array, Bytes, Floats, Integers
from seqbatch.datasets.murmur import murmur3_of
from seqbatch.errors import InvalidArgumentError
from seqbatch.simulation.device.pools import chunks, signed_counts

Codes = Bytes

#: d in the paper (Section 6.3).
DIM = 40
#: The largest d: the place takes seven bits of a byte, and 255 is left for "not hashed yet".
LARGEST_DIM = 127

_NEGATIVE = 128
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class HashedRows:
    """Rows of hashed categories with a 0/1 outcome.

    Parameters
    ----------
    codes
        One byte a column, shape (n, columns): the place, plus 128 where the sign is negative.
    click
        The outcome, shape (n,).
    dim
        d, the length of a row's vector.

    Examples
    --------
    >>> rows = HashedRows(np.array([[0, 129, 1], [2, 2, 130]]), np.array([0, 1]), dim=4)
    >>> rows.dense([1, 0])
    array([[0. , 0. , 0.5, 0. ],
           [0.5, 0. , 0. , 0. ]])
    """

    codes: Codes
    click: Codes
    dim: int = DIM

    def __post_init__(self) -> None:
        dimension(self.dim)
        codes, click = np.asarray(self.codes), np.asarray(self.click)
        if codes.ndim != 2 or click.shape != (len(codes),):
            raise InvalidArgumentError(
                "codes and click",
                "of shapes (n, columns) and (n,)",
                f"shapes {codes.shape} and {click.shape}",
            )
        object.__setattr__(self, "codes", codes.astype(np.uint8, copy=False))
        object.__setattr__(self, "click", click.astype(np.uint8, copy=False))

    @classmethod
    def joined(cls, chunks: Iterable["HashedRows"]) -> "HashedRows":
        """Return the rows of all chunks, at least one, in one table.

        Each chunk is let go as soon as it was copied, so that the rows are never held twice.
        """
        waiting = list(chunks)
        rows = sum(len(chunk) for chunk in waiting)
        columns, dim = waiting[0].codes.shape[1], waiting[0].dim
        whole = cls(np.empty((rows, columns), np.uint8), np.empty(rows, np.uint8), dim)
        end = rows
        while waiting:
            chunk = waiting.pop()
            start = end - len(chunk)
            whole.codes[start:end], whole.click[start:end] = chunk.codes, chunk.click
            end = start
        return whole

    def __len__(self) -> int:
        return len(self.click)

    @property
    def scale(self) -> float:
        """The factor 1/sqrt(d) of every vector."""
        return float(1.0 / np.sqrt(self.dim))

    def counts(self, place: Any) -> Array:
        """Return the sums of signs of all rows, as int8 on a device."""
        xp = place.xp
        result = xp.empty((len(self), self.dim), dtype=xp.int8, device=place.device)
        for part in chunks(len(self)):
            columns = place.array(self.codes[part]).T
            result[part] = signed_counts(list(columns), self.dim, xp)
        return result

    @property
    def nbytes(self) -> int:
        """Bytes of memory the rows take."""
        return int(self.codes.nbytes + self.click.nbytes)

    def dense(self, indices: ArrayLike | slice) -> Floats:
        """Return the vectors of these rows, shape (*indices.shape, d)."""
        vectors = self.sums(indices)
        vectors *= self.scale
        return vectors

    def sums(self, indices: ArrayLike | slice) -> Floats:
        """Return the vectors before the factor 1/sqrt(d): whole numbers, sums of signs."""
        codes = self.codes[indices if isinstance(indices, slice) else _places(indices)]
        totals = np.zeros((*codes.shape[:-1], self.dim))
        kernels.signed_counts(codes.reshape(-1, codes.shape[-1]), totals.reshape(-1, self.dim))
        return totals


def _places(indices: ArrayLike) -> Integers:
    array = np.asarray(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidArgumentError("indices", "whole numbers", f"dtype {array.dtype}")
    return array.astype(np.int64, copy=False)


def dimension(dim: int) -> int:
    """Return `dim`, a length that fits the codes."""
    if arguments.integer("dim", dim) > LARGEST_DIM:
        raise InvalidArgumentError("dim", f"at most {LARGEST_DIM}", dim)
    return dim


def hash_codes(column: str, values: Sequence[str], dim: int) -> Codes:
    """Return the code of each value of a column.

    >>> hash_codes("device_type", ["1", "0", "1"], 40)
    array([29, 19, 29], dtype=uint8)
    """
    hashes = murmur3_of([f"{column}={value}" for value in values])
    codes = np.abs(hashes) % dim + np.where(hashes < 0, _NEGATIVE, 0)
    return codes.astype(np.uint8)


def fit_theta(rows: HashedRows, click: ArrayLike | None = None) -> Floats:
    """Return the least-squares parameter of click on the rows' vectors, d numbers.

    The gram is summed in chunks, as whole numbers: for 0/1 outcomes no rounding enters before the
    solution. Where it is singular, the solution of least norm is returned.

    Parameters
    ----------
    rows
        The features.
    click
        The outcomes, one a row; those of `rows` where None.

    Examples
    --------
    >>> rows = HashedRows(np.array([[0], [1]]), np.array([0, 1]), dim=4)
    >>> fit_theta(rows)
    array([0., 2., 0., 0.])
    """
    arguments.integer("the number of rows", len(rows))
    target = rows.click if click is None else arguments.floats("click", click, (len(rows),))
    gram, moment, squares = np.zeros((rows.dim, rows.dim)), np.zeros(rows.dim), 0.0
    for start in range(0, len(rows), _CHUNK):
        sums = rows.sums(slice(start, start + _CHUNK))
        part = target[start : start + _CHUNK].astype(np.float64)
        gram += sums.T @ sums
        moment += part @ sums
        squares += float(part @ part)
    return theta_of(gram, moment, squares, len(rows))


def theta_of(gram: Floats, moment: Floats, squares: float, rows: int) -> Floats:
    """Return the parameter, from sums over the vectors before the factor 1/sqrt(d)."""
    dim = len(moment)
    statistics = Statistics(
        gram=gram[None] / dim,
        moment=moment[None] / np.sqrt(dim),
        squares=np.array([squares]),
        count=np.array([rows]),
    )
    theta: Floats = least_squares(statistics).theta[0]
    return theta

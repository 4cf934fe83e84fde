"""Balanced random assignment from a table of probabilities: exact dependent rounding."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import arguments, kernels
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounded:
    """Actions drawn from a table of probabilities.

    Attributes
    ----------
    actions
        The action of each unit, (n,).
    probabilities
        The probabilities with which they were drawn, (n, K): the given ones, rounded to multiples
        of 2^-52 such that every row sums to exactly 1. Log these.
    """

    actions: Integers
    probabilities: Floats


def rounded(
    probabilities: ArrayLike,
    *,
    key: int | bytes,
    order: ArrayLike | None = None,
    strata: ArrayLike | None = None,
) -> Rounded:
    """Draw one action per unit, with counts as balanced as whole numbers can be.

    Every unit gets each action with exactly the returned probability. Each action's count, overall
    and in every stratum at every level, is its expectation rounded up or down. Within a finest
    stratum, units are never positively correlated: that one unit gets an action does not make it
    more likely for another.

    Parameters
    ----------
    probabilities
        (n, K), rows sum to 1. Cells of 0 are never chosen.
    key
        The key of the random draw: the same key gives the same actions.
    order
        One number per unit, (n,), for example a hash of its id: within strata, units are processed
        in this order, which makes the result independent of the order of rows. By default they are
        processed in the order of rows.
    strata
        Whole numbers, (n,) or (n, levels), from coarse to fine: counts are balanced within each
        value of the first column, within each combination of the first two, and so on.

    Examples
    --------
    66 patients in three arms:

    >>> drawn = rounded(np.full((66, 3), 1 / 3), key=7)
    >>> np.bincount(drawn.actions).tolist()
    [22, 22, 22]
    """
    table = arguments.floats("probabilities", probabilities, ("units", "actions"))
    weights = whole_parts(table)
    columns = _levels(strata, len(weights))
    ranks = _ranks(order, len(weights))
    # The last key of lexsort is the first to sort by.
    places = np.lexsort([ranks, *reversed(columns)])
    changes, groups = _changes([column[places] for column in columns], len(weights))
    words = np.frombuffer(_digest(key), dtype="<u8")[:2].astype(np.uint64)
    actions = kernels.round_table(weights, places, changes, groups, len(columns) + 1, words)
    return Rounded(actions=actions, probabilities=as_floats(weights))


def whole_parts(table: Floats) -> Integers:
    """Return probabilities as integer multiples of 2^-52 whose rows sum to exactly 2^52."""
    weights = np.empty(table.shape, dtype=np.int64)
    wrong = kernels.whole_parts(table, weights)
    if wrong >= 0:
        raise InvalidArgumentError(
            "probabilities",
            "at least 0 and sum to 1 in every row",
            f"{table[wrong].tolist()} in row {wrong}",
        )
    return weights


def as_floats(weights: Integers) -> Floats:
    """Return integer multiples of 2^-52 as probabilities, without loss."""
    return np.ldexp(weights.astype(np.float64), -52)


def _levels(strata: ArrayLike | None, units: int) -> list[AnyArray]:
    if strata is None:
        return []
    columns = np.asarray(strata)
    if columns.dtype.kind not in "iub" or columns.shape[:1] != (units,) or columns.ndim > 2:
        raise InvalidArgumentError(
            "strata",
            f"whole numbers of shape ({units},) or ({units}, levels)",
            f"{columns.dtype} of shape {columns.shape}",
        )
    return list(columns.reshape(units, -1).T)


def _ranks(order: ArrayLike | None, units: int) -> AnyArray:
    ranks = np.arange(units) if order is None else np.asarray(order)
    if ranks.shape != (units,) or ranks.dtype.kind not in "iuf":
        rule = f"one number for each of {units} units"
        raise InvalidArgumentError("order", rule, f"{ranks.dtype} of shape {ranks.shape}")
    return ranks


def _changes(columns: list[AnyArray], units: int) -> tuple[Integers, int]:
    """Return the coarsest level at which each unit starts a new stratum, and the strata count."""
    depth = len(columns) + 1
    changes = np.full(units, depth)
    for level in range(depth - 1, 0, -1):
        column = columns[level - 1]
        changes[1:][column[1:] != column[:-1]] = level
    # Where a stratum ends, all strata inside it end too.
    return changes, depth + int((depth - changes).sum())


def _digest(key: int | bytes) -> bytes:
    if isinstance(key, bool) or not isinstance(key, int | np.integer | bytes):
        raise InvalidArgumentError("key", "a whole number or bytes", repr(key))
    return hashlib.sha256(key if isinstance(key, bytes) else str(int(key)).encode()).digest()

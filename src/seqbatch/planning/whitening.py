"""Whitening: the statistics of an experiment under way, with contexts of unit covariance."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Statistics, arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.model import Model


def whitened(statistics: Statistics, covariance: ArrayLike | None, model: Model) -> Statistics:
    """Return statistics in coordinates in which contexts are standard normal."""
    inverse = np.linalg.inv(_context_root(statistics, covariance, model))
    return replace(
        statistics,
        gram=inverse @ statistics.gram @ inverse.T,
        moment=statistics.moment @ inverse.T,
    )


def _context_root(statistics: Statistics, covariance: ArrayLike | None, model: Model) -> Floats:
    """Return the matrix that turns whitened contexts into those of the statistics.

    With features every unit's row is among the statistics, whichever action it got, so that mean
    and covariance can be read off them.
    """
    count, dim = int(statistics.count.sum()), statistics.dim
    if count <= dim:
        raise InvalidArgumentError("statistics", f"of more than {dim} units", f"{count} units")
    if model.layout == "shared":
        if covariance is None:
            raise InvalidArgumentError("covariance", "given, as the plan is for dim", "none")
        return _root(arguments.floats("covariance", covariance, (dim, dim)))
    if covariance is not None:
        raise InvalidArgumentError("covariance", "left out, as the plan is for features", "one")
    second = statistics.gram.sum(axis=0) / count
    # The mean of the constant's square is 1, and hardly anything else's is.
    if not math.isclose(second[0, 0], 1.0, rel_tol=1e-9):
        raise InvalidArgumentError(
            "statistics",
            "of rows that begin with the constant 1",
            f"mean square {second[0, 0]}",
        )
    mean = second[1:, 0]
    root = np.zeros((dim, dim))
    root[0, 0], root[1:, 0] = 1.0, mean
    if dim > 1:
        root[1:, 1:] = _root(second[1:, 1:] - np.outer(mean, mean))
    return root


def _root(covariance: Floats) -> Floats:
    """Return a root; its rank is judged in a way that does not depend on units of measure."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale > 0).all():
        correlation = covariance / np.outer(scale, scale)
        # Below this a column is a combination of others, up to the rounding of their sums.
        if np.linalg.eigvalsh(correlation).min() > 1e-8:
            return scale[:, None] * np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)
    raise InvalidArgumentError(
        "statistics",
        "of features that vary and are not combinations of each other",
        "some that are constant or redundant",
        "Leave those columns out; of each category, leave out one level.",
    )

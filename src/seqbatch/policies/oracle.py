"""The oracle: knows the true parameter and always plays the best action.

It is the benchmark in the definition of regret (Definition 1) and useful only in simulations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Estimate, Problem, arguments
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import First, LinearPolicy


@dataclass(frozen=True)
class Oracle(LinearPolicy):
    """The best action under the true parameter.

    Parameters
    ----------
    theta
        The true parameter: d numbers in the shared layout, K rows of p in the other two.
    first
        ``"fixed"`` in every layout: the truth is known from the start.
    ties
        See :class:`~seqbatch.policies.base.LinearPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> oracle = Oracle([[1.0], [-1.0]])
    >>> learner = Learner(oracle, grids.explicit([2]), actions=2, dim=1, layout="block")
    >>> learner.assign([[1.0], [-1.0]]).actions
    array([0, 1])
    """

    theta: ArrayLike
    # The truth needs no random start.
    first: First | None = field(default="fixed", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Stored as plain tuples: oracles then compare, hash and serialise like other policies.
        try:
            array = np.asarray(self.theta, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            array = np.empty(0)
        if array.ndim not in (1, 2) or not array.size:
            raise InvalidArgumentError(
                "theta", "d numbers, or one row of p numbers for each action", repr(self.theta)
            )
        plain = array.tolist()
        nested = tuple(tuple(row) if isinstance(row, list) else row for row in plain)
        object.__setattr__(self, "theta", nested)

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return the true parameter as the estimate."""
        shape = (problem.dim,) if problem.layout == "shared" else (problem.actions, problem.dim)
        truth = arguments.floats("theta", self.theta, shape)
        blank = Estimate.zero(problem.models, problem.dim)
        return (replace(blank, theta=truth.reshape(problem.models, problem.dim)),)

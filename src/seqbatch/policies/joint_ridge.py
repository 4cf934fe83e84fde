"""JointRidge: one ridge regression of all actions, its penalty by the outcomes, then greedy.

The coefficients of an action are a common part plus a deviation, theta_a = c + delta_a. They
minimise the sum of squared errors plus

    lambda (|c|^2 / 4 + sum over actions of |delta_a|^2),

where the constant's part of c is free. At the end of each batch lambda is chosen by 5-fold
cross-validation, from the sums of the folds alone; it is at most 100 times a column's mean square,
so that contexts go on exploring. Units then get the action with the highest estimated mean. As
outcomes accumulate, the estimate becomes that of least squares.

*The last two batches.* What they teach is used once more or never, so that they need not explore.
With ``estimate="averaged"`` they use the estimate that predicts best: an average over penalties, by
how likely these make the outcomes, with separate penalties for the constant's deviations, the
features' deviations and the common part, without a cap; see
:mod:`seqbatch.core.averaged_regression`. Campaigns use it. It earns most where features hardly tell
actions apart, as with rare events: then nearly all units get the same action. In earlier batches
it would lock in, and of two batches a small first one would decide alone what is left out.

*Guarantee.* Not in the paper. With a fixed penalty the argument for SBPE applies up to the bias;
in practice it earns more than SBPE if units per parameter are few, and the same if they are many.

*First batches.* A first batch may be too small to tell actions apart, and a greedy policy would not
try again what looked bad in it. Batches are therefore assigned at random until `start` units for
each action have been; the last one never is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch.core import Estimate, Problem, arguments
from seqbatch.core.arrays import Floats
from seqbatch.core.averaged_regression import averaged_regression
from seqbatch.core.cross_validation import cross_validated
from seqbatch.core.joint_regression import JointSums
from seqbatch.core.pooled_regression import PooledRegression
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import First, State
from seqbatch.policies.estimation import OWN_LEVEL, LeveledPolicy, without_widths
from seqbatch.policies.rule import Rule

FOLDS = 5
#: How many batches at the end are averaged.
ENDING = 2
CROSS_VALIDATED: Literal["cross-validated"] = "cross-validated"
AVERAGED: Literal["averaged"] = "averaged"


@dataclass(frozen=True, kw_only=True)
class JointRidge(LeveledPolicy):
    """Ridge regression of all actions together, with the penalty by cross-validation.

    Parameters
    ----------
    first
        ``"uniform"`` by default: the first batches are assigned at random. With ``"fixed"`` all
        actions tie at first, as theta = 0.
    start
        With ``first="uniform"``: batches are random until so many units for each action are
        assigned. The first batch always is.
    estimate
        ``"cross-validated"``: one penalty, in all batches. ``"averaged"``: in the last two batches
        of three or more an average over many penalties, if each action has its own model and
        there is no history.
    ties, last
        See :class:`~seqbatch.policies.base.LinearPolicy`.
    waves, constant, history
        See :class:`~seqbatch.policies.estimation.LeveledPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> rng = np.random.default_rng(0)
    >>> learner = Learner(
    ...     JointRidge(constant=0), grids.explicit([200, 400]), actions=2, dim=3, layout="block"
    ... )
    >>> x = np.column_stack([np.ones(200), rng.standard_normal((200, 2))])
    >>> actions = learner.assign(x).actions
    >>> learner.observe(x[:, 1] + np.where(actions == 1, x[:, 2], 0.0) + rng.standard_normal(200))
    >>> learner.estimate.theta.round(1) + 0.0
    array([[0. , 1. , 0. ],
           [0. , 0.9, 1.2]])
    """

    first: First | None = "uniform"
    start: int = 5
    estimate: Literal["cross-validated", "averaged"] = CROSS_VALIDATED

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"start": 0, "ties": "random"},
        {"first": "fixed"},
        {"estimate": AVERAGED, "constant": 0, "waves": OWN_LEVEL},
    )
    greedy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "start", arguments.integer("start", self.start, at_least=0))
        arguments.choice("estimate", self.estimate, (CROSS_VALIDATED, AVERAGED))
        if self.history is not None and self.estimate == AVERAGED:
            raise InvalidArgumentError(
                "estimate", f"{CROSS_VALIDATED!r} with a history", repr(self.estimate)
            )

    @property
    def folds(self) -> int:
        """The number of folds of the cross-validation."""
        return FOLDS

    @property
    def pooling(self) -> bool:
        """Actions learn from one another, if each has its own model."""
        return True

    def blind(self, problem: Problem) -> int:
        """Return how many batches are assigned at random."""
        if self.opening(problem) != "uniform":
            return 0
        enough = np.searchsorted(problem.ends, self.start * problem.actions) + 1
        return max(1, min(int(enough), problem.batches - 1))

    def rule(self, state: State) -> Rule:
        """Return the uniform rule in the first batches, and the preference elsewhere."""
        preferred = super().rule(state)
        if state.batch <= self.blind(state.problem):
            return replace(preferred, kind="uniform")
        return preferred

    def refit(self, state: State) -> State:
        """Solve the regression of each trial for the next batch."""
        if self.history is not None:
            fits = [fit for fit, _ in self.from_history(state)]
            return replace(state, estimates=(without_widths(fits),))
        theta = np.concatenate([self._theta(folds, state) for folds in self.joint_sums(state)])
        cells, dim = theta.shape
        estimate = Estimate(theta, np.zeros((0, 0, 0)), np.full(cells, dim), np.full(cells, np.nan))
        return replace(state, estimates=(estimate,))

    def without_history(self, folds: Sequence[JointSums]) -> PooledRegression:
        """Return the regression of one trial from its outcomes alone."""
        found = cross_validated(folds, constant=self.constant)
        return PooledRegression(np.nan, np.zeros(0), found.fit, ())

    def _theta(self, folds: Sequence[JointSums], state: State) -> Floats:
        if self.estimate == AVERAGED and self._ends(state) and state.problem.models > 1:
            return averaged_regression(reduce(JointSums.plus, folds), constant=self.constant).theta
        return cross_validated(folds, constant=self.constant).fit.theta

    def _ends(self, state: State) -> bool:
        """Return whether the next batch is one of the last ones, and not the second of two."""
        batches = state.problem.batches
        return batches > ENDING and state.batch + 1 > batches - ENDING

"""SBPE: least squares on all earlier batches, and pure exploitation (Algorithm 4).

Each unit gets the action with the highest <x, theta>, where theta is the ordinary least-squares
estimate from all earlier batches. There is no deliberate exploration: varied contexts provide it.

*Guarantee.* For independent Gaussian contexts with a common, well-conditioned covariance, on the
minimax grid, regret of order sqrt(d T ln K) (T/d^2)^(1/(2(2^M-1))) up to logarithms (Theorem 2),
which is optimal. The proof covers BPE, the version with sample splitting; the paper recommends SBPE
in practice. Dependent and heterogeneous contexts: Proposition 1. One model per action:
Proposition 2, with a constant exponential in K. Bounded symmetric contexts: Proposition 3. There is
no guarantee for arbitrary contexts, nor in the block layout, where all actions share one vector.

*First batch.* With theta = 0 all actions tie, so ``ties="lowest"`` plays action 0 throughout the
first batch, as published (``first="fixed"``). That suffices in the shared layout; in the others the
first batch is uniformly random unless `first` is stated.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seqbatch.core import least_squares
from seqbatch.core.regression import warn_if_deficient
from seqbatch.policies.base import GreedyPolicy, State
from seqbatch.policies.estimation import EstimatingPolicy, without_widths


@dataclass(frozen=True, kw_only=True)
class SBPE(EstimatingPolicy, GreedyPolicy):
    """Sequential batch pure exploitation (Algorithm 4).

    Parameters
    ----------
    first, ties, unknown, last
        See :class:`~seqbatch.policies.base.GreedyPolicy`.
    estimate, waves, constant, history
        See :class:`~seqbatch.policies.estimation.EstimatingPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(SBPE(), grids.explicit([4, 6]), actions=2, dim=2)
    >>> x = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[1, 1], [1, 0]], [[1, -1], [0, 1]]])
    >>> learner.assign(x).actions
    array([0, 0, 0, 0])
    >>> learner.observe([1.0, 2.0, 3.0, -1.0])
    >>> learner.estimate.theta.round(6), learner.estimate.rank
    (array([[1., 2.]]), array([2]))
    >>> learner.assign(x[:2]).actions
    array([1, 0])
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"first": "uniform", "ties": "random"},
        {"first": "uniform", "estimate": "pooled"},
    )

    def refit(self, state: State) -> State:
        """Solve the least squares of all evidence; warn once if it is singular."""
        if self.pools(state.problem):
            return replace(state, estimates=(without_widths(self.pooled(state)),))
        outcomes, _ = self.outcomes_alone(state, 0.0)
        fitted = least_squares(outcomes)
        warned = state.warned or warn_if_deficient(
            fitted, outcomes, type(self).__name__, state.problem.models
        )
        return replace(state, estimates=(fitted,), warned=warned)

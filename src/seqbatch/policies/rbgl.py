"""RBGL: ridge regression and pure exploitation, in batches (Section 6.2, after Bastani et al.).

SBPE with ridge regression in place of least squares. It never needs a full-rank design, at the
price of a bias that vanishes as data accumulate.

*Guarantee.* The paper gives none and uses it as a baseline on the grid of Ren and Zhou
(``grids.sparse``). With independent, diverse contexts the argument for SBPE applies up to the bias.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seqbatch.core import ridge_means
from seqbatch.policies.base import GreedyPolicy, State
from seqbatch.policies.estimation import EstimatingPolicy, without_widths


@dataclass(frozen=True, kw_only=True)
class RBGL(EstimatingPolicy, GreedyPolicy):
    """Ridge batch greedy learning.

    Parameters
    ----------
    ridge
        lambda, the penalty; 1 by default.
    first, ties, unknown, last
        See :class:`~seqbatch.policies.base.GreedyPolicy`.
    estimate, waves, constant, history
        See :class:`~seqbatch.policies.estimation.EstimatingPolicy`; a pooled estimate has no
        lambda.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(RBGL(ridge=1.0), grids.explicit([3, 4]), actions=2, dim=1)
    >>> decision = learner.assign(np.ones((3, 2, 1)))
    >>> learner.observe([2.0, 2.0, 2.0])
    >>> learner.estimate.theta
    array([[1.5]])
    """

    ridge: float = 1.0

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"ridge": 3.0},
        {"ridge": 0.2, "first": "uniform", "ties": "random"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plain("ridge", above=0)

    def refit(self, state: State) -> State:
        """Solve the ridge regression on all evidence."""
        if self.pools(state.problem):
            return replace(state, estimates=(without_widths(self.pooled(state)),))
        outcomes, _ = self.outcomes_alone(state, self.ridge)
        return replace(state, estimates=(ridge_means(outcomes, self.ridge),))

"""LBGL: the lasso and pure exploitation, in batches (Section 6.2, after Ren and Zhou).

SBPE with the lasso in place of least squares, for parameters that are mostly zero. The first
batch is assigned uniformly at random. Before batch m the penalty is

    scale sqrt(2 ln K (ln d + 2 ln T) / t_{m-1}),

with the loss |y - X theta|^2 / (2 n).

*Guarantee.* Ren and Zhou prove it near-optimal for sparse parameters and diverse contexts on the
grid ``grids.sparse``; the paper uses it as a baseline with dense parameters, where it has
no guarantee.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch.core import lasso
from seqbatch.core.arrays import Floats
from seqbatch.policies.base import First, GreedyPolicy, State
from seqbatch.policies.estimation import OUTCOMES, noise_levels


@dataclass(frozen=True, kw_only=True)
class LBGL(GreedyPolicy):
    """Lasso batch greedy learning.

    Parameters
    ----------
    scale
        c, the multiplier of the penalty; 1 by default.
    noise
        A further multiplier, the noise level; 1 as published. ``"outcomes"``: the residual standard
        deviation of the outcomes so far.
    first
        ``"uniform"`` as published. With ``"fixed"`` all actions tie, as theta = 0.
    ties, unknown
        See :class:`~seqbatch.policies.base.GreedyPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> rng = np.random.default_rng(0)
    >>> learner = Learner(LBGL(scale=0.05), grids.explicit([200, 400]), actions=2, dim=4)
    >>> x = rng.standard_normal((200, 2, 4))
    >>> chosen = x[np.arange(200), learner.assign(x).actions]
    >>> learner.observe(chosen @ [1.0, 0.0, 0.0, -1.0])
    >>> learner.estimate.theta.round(2)
    array([[ 0.98,  0.  ,  0.  , -0.99]])
    """

    scale: float = 1.0
    noise: float | Literal["outcomes"] = 1.0
    first: First | None = "uniform"

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"scale": 0.05},
        {"scale": 0.1, "first": "fixed", "ties": "random"},
        {"scale": 0.1, "noise": "outcomes"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plain("scale", at_least=0)
        self._plain_unless("noise", OUTCOMES, above=0)

    def refit(self, state: State) -> State:
        """Solve the lasso on all evidence, with the penalty of the next batch."""
        problem, seen = state.problem, state.problem.ends[state.batch - 1]
        logs = math.log(problem.parameters) + 2 * math.log(problem.units)
        penalty = (
            self.scale * self._noise(state) * math.sqrt(2 * math.log(problem.actions) * logs / seen)
        )
        # All models together form one long parameter with one n (1 before any outcome).
        units = state.evidence[0].count.reshape(-1, problem.models).sum(axis=1)
        each = np.repeat(np.maximum(units, 1), problem.models)
        return replace(state, estimates=(lasso(state.evidence[0], penalty, units=each),))

    def _noise(self, state: State) -> Floats:
        """Return the noise level of each model's trial, shape (cells,)."""
        evidence, models = state.evidence[0], state.problem.models
        if self.noise != OUTCOMES:
            return np.full(evidence.cells, self.noise)
        return np.repeat(noise_levels(evidence, models), models)

    def determined(self, state: State) -> None:  # noqa: ARG002
        """Return None: the lasso selects among directions that the data leave undetermined."""
        return

"""Uniform random assignment: the plain randomised experiment.

Every unit gets each of its eligible actions with the same probability, whatever has been learned.
It is the usual baseline, and the design under which all classical intervals are valid.
"""

from dataclasses import dataclass, replace

from seqbatch.core import least_squares
from seqbatch.policies.base import BasePolicy, State
from seqbatch.policies.rule import Rule


@dataclass(frozen=True, kw_only=True)
class UniformRandom(BasePolicy):
    """Every action with probability 1/K, or 1/m for a unit with m eligible actions.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(UniformRandom(), grids.explicit([4]), actions=2, dim=1, layout="block")
    >>> learner.assign(np.ones((4, 1))).probabilities[0]
    array([0.5, 0.5])
    """

    def refit(self, state: State) -> State:
        """Fit least squares for reporting; the policy itself does not use it."""
        return replace(state, estimates=(least_squares(state.evidence[0]),))

    @property
    def explored(self) -> float:
        """All units."""
        return 1.0

    def preference(self, state: State) -> Rule:
        """Return the uniform rule."""
        return Rule(kind="uniform", theta=state.estimates[0].theta)

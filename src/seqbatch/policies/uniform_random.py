"""Uniform random assignment: the plain randomised experiment.

Every unit gets each of its eligible actions with the same probability, whatever has been learned.
It is the usual baseline, and the design under which all classical intervals are valid.
"""

from dataclasses import dataclass, replace

from seqbatch.core import Contexts, least_squares
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies.base import BasePolicy, Ranking, State
from seqbatch.policies.choice import uniformly
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

    def estimate(self, state: State) -> State:
        """Fit least squares for reporting; the policy itself does not use it."""
        return replace(state, estimates=(least_squares(state.evidence[0]),))

    def choose(
        self,
        state: State,
        contexts: Contexts,
        ranking: Ranking,  # noqa: ARG002
        draws: Floats,
    ) -> tuple[Integers, Floats]:
        """Choose uniformly."""
        return uniformly(len(contexts), state.problem.actions, draws, contexts.eligible)

    def rule(self, state: State) -> Rule:  # noqa: ARG002
        """Return the uniform rule."""
        return Rule(kind="uniform")

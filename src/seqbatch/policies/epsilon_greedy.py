"""Epsilon-greedy over ridge regression: exploit, but explore with a fixed share of units.

Each unit gets the action with the highest ridge estimate with probability 1 - epsilon, and a
uniformly random one with probability epsilon. A simple baseline whose exploration never stops.

*Guarantee.* Not in the paper. With a fixed epsilon, regret grows linearly in T.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seqbatch.policies.base import State
from seqbatch.policies.rbgl import RBGL
from seqbatch.policies.rule import Rule


@dataclass(frozen=True)
class EpsilonGreedy(RBGL):
    """Ridge regression with a fixed share of uniformly random actions.

    Parameters
    ----------
    epsilon
        The share of units that explore, between 0 and 1.
    ridge, first, ties, unknown
        As for :class:`~seqbatch.policies.RBGL`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(EpsilonGreedy(epsilon=0.2), grids.explicit([3, 4]), actions=2, dim=1)
    >>> learner.assign(np.ones((3, 2, 1))).probabilities[0]
    array([0.9, 0.1])
    """

    epsilon: float = 0.1

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"epsilon": 0.3, "ridge": 2.0},
        {"epsilon": 0.05, "ridge": 0.5, "first": "uniform", "ties": "random"},
    )
    greedy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plain("epsilon", at_least=0, at_most=1)

    @property
    def explored(self) -> float:
        """The share epsilon, unless the last batch does not explore."""
        return 0.0 if self.ends_greedily else self.epsilon

    def preference(self, state: State) -> Rule:
        """Return the greedy rule, from which a share of the units explores."""
        return replace(super().preference(state), epsilon=self.epsilon)

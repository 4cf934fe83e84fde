"""FixedAction: one action for every unit, the baseline without an experiment.

It models "keep doing what we do", or rolling one action out to all units.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from seqbatch.core import Problem, arguments, least_squares
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import BasePolicy, State
from seqbatch.policies.rule import Rule


@dataclass(frozen=True)
class FixedAction(BasePolicy):
    """The same action for every unit that may get it.

    A unit that may not get it gets its lowest eligible action.

    Parameters
    ----------
    action
        The number of the action, from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(FixedAction(1), grids.explicit([3]), actions=2, dim=1)
    >>> learner.assign(np.ones((3, 2, 1))).actions
    array([1, 1, 1])
    """

    action: int = 0

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"action": 1},)

    def __post_init__(self) -> None:
        action = arguments.integer("action", self.action, at_least=0)
        object.__setattr__(self, "action", action)

    def begin(self, problem: Problem) -> State:
        """Check that the action exists and return the initial state."""
        if self.action >= problem.actions:
            raise InvalidArgumentError("action", f"below actions = {problem.actions}", self.action)
        return super().begin(problem)

    def refit(self, state: State) -> State:
        """Fit least squares for reporting; the policy itself does not use it."""
        return replace(state, estimates=(least_squares(state.evidence[0]),))

    def preference(self, state: State) -> Rule:
        """Return the rule of the action."""
        return Rule(kind="fixed", theta=state.estimates[0].theta, action=self.action)

    def final(self, state: State) -> Rule:
        """Return the rule of the action: nothing was tried."""
        return self.preference(state)

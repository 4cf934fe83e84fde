"""FixedAction: one action for every unit, the baseline without an experiment.

It models "keep doing what we do", or rolling one action out to all units.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from seqbatch.core import Contexts, Problem, arguments, least_squares
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import BasePolicy, Ranking, State
from seqbatch.policies.choice import surely
from seqbatch.policies.rule import Rule


@dataclass(frozen=True, kw_only=True)
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
    >>> learner = Learner(FixedAction(action=1), grids.explicit([3]), actions=2, dim=1)
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

    def estimate(self, state: State) -> State:
        """Fit least squares for reporting; the policy itself does not use it."""
        return replace(state, estimates=(least_squares(state.evidence[0]),))

    # All policies share this signature; this one ignores scores and draws.
    def choose(
        self,
        state: State,
        contexts: Contexts,
        ranking: Ranking,  # noqa: ARG002
        draws: Floats,  # noqa: ARG002
    ) -> tuple[Integers, Floats]:
        """Choose the fixed action, or the lowest eligible one."""
        chosen = np.full(len(contexts), self.action, dtype=np.int64)
        if (eligible := contexts.eligible) is not None:
            chosen = np.where(eligible[:, self.action], chosen, eligible.argmax(axis=1))
        return surely(chosen, state.problem.actions)

    def rule(self, state: State) -> Rule:  # noqa: ARG002
        """Return the fixed action as a rule."""
        return Rule(kind="fixed", action=self.action)

"""SupSBUCB: staged elimination over SBUCB that keeps rewards independent (Algorithms 2 and 3).

Each unit passes through stages s = 1, 2, ..., S = ceil(ln T) with a set of candidate actions, at
first all its eligible ones. Stage s has its own ridge regression (BaseSBUCB) on the units that were
decided at that stage. With w = gamma times the width, under the statistics of stage s:

(a) if every candidate has w <= 1/sqrt(T): choose the highest mean + w, and learn nothing;
(b) else if every candidate has w <= 2^-s: drop candidates whose mean + w is more than 2^(1-s)
    below the highest, and go on to stage s + 1;
(c) else choose a candidate with w > 2^-s; its outcome enters the statistics of stage s.

*Guarantee.* Regret of order sqrt(d T) + d T / M up to logarithms, for arbitrary contexts of norm at
most 1 on a uniform grid (Theorem 1). It splits its data over the stages, and in practice performs
worse than SBUCB, as in the paper.

Nothing changes within a batch, so all units pass a stage together. The decision's scores are
mean + w at the stage of decision. With ``first="uniform"`` the action is random, but learning still
follows the rules: units that rule (a) decides, because their widths are small from the start, teach
nothing.
"""

import math
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, Literal

from seqbatch.core import Contexts, Estimate, Problem, Statistics, arguments, kernels, ridge
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies.base import State
from seqbatch.policies.rule import Rule, Staging
from seqbatch.policies.sbucb import ConfidencePolicy, ends_ahead

EXPLORE = ("highest", "widest", "first")


@dataclass(frozen=True, kw_only=True)
class SupSBUCB(ConfidencePolicy):
    """The master algorithm over SBUCB (Algorithms 2 and 3).

    Parameters
    ----------
    explore
        How rule (c), which the paper leaves open, chooses among the candidates wider than 2^-s:
        the ``"highest"`` mean + w, the ``"widest"``, or the ``"first"``.
    gamma, ridge, first, ties
        As for :class:`~seqbatch.policies.SBUCB`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(
    ...     SupSBUCB(gamma=1.0), grids.uniform(units=40, batches=2), actions=2, dim=2
    ... )
    >>> x = np.array([[[1.0, 0.0], [0.0, 0.4]]] * 20)
    >>> decision = learner.assign(x)
    >>> decision.actions[0], decision.stages[0], decision.rules[0]
    (np.int64(0), np.int64(1), np.str_('c'))
    >>> learner.observe(np.zeros(20))
    >>> decision = learner.assign(x)
    >>> decision.actions[0], decision.stages[0], decision.rules[0]
    (np.int64(0), np.int64(2), np.str_('c'))
    """

    explore: Literal["highest", "widest", "first"] = "highest"

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"gamma": 0.7, "ridge": 2.5, "explore": "widest"},
        {"gamma": 0.3, "ridge": 0.1, "explore": "first", "first": "uniform", "ties": "random"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # A design has no stages, and stages keep the evidence apart.
        if self.first is not None:
            arguments.choice("first", self.first, ("fixed", "uniform"))
        arguments.choice("explore", self.explore, EXPLORE)

    def groups(self, problem: Problem) -> int:
        """Keep S = ceil(ln T) stages separate."""
        return max(1, math.ceil(math.log(problem.units)))

    def preference(self, state: State) -> Rule:
        """Return the rule of the stages."""
        staging = Staging(state.estimates, self._enough(state.problem), self._explored)
        theta, gamma = state.estimates[0].theta, self.multiplier(state.problem)
        return Rule(kind="highest", theta=theta, gamma=gamma, ties=self.ties, staging=staging)

    @property
    def _explored(self) -> int:
        """What rule (c) chooses, as kernels number it."""
        return EXPLORE.index(self.explore)

    def _enough(self, problem: Problem) -> float:
        """Return the width at which rule (a) decides."""
        return 1 / math.sqrt(problem.units)

    def summary(self, state: State) -> Estimate:
        """Return the ridge regression of all stages pooled; decisions use each stage separately."""
        return ridge(reduce(Statistics.merge, state.evidence), self.ridge)

    def replay(
        self, state: State, contexts: Contexts, table: Floats, draws: Floats
    ) -> tuple[State, Integers]:
        """Play whole batches against a table of every action's reward, in one compiled loop.

        The result is bit-identical to calling `assign`, `learn` and `close` batch by batch.
        """
        ends = ends_ahead(state, len(contexts))
        kernel = partial(
            kernels.replay_stages,
            ends=ends,
            enough=self._enough(state.problem),
            explore=self._explored,
            models=state.problem.models,
        )
        return self.replayed(state, contexts, table, draws, len(ends), kernel)

"""BPE: pure exploitation with sample splitting (Algorithm 5).

Every batch is split into M intervals, and the estimate used in batch m + 1 is fitted on interval m
of batches 1 to m only. No outcome is used in two estimates, so rewards remain independent given the
chosen contexts, which the proof for SBPE lacks. The price: each estimate uses only one M-th of the
data.

*Guarantee.* As for SBPE, with the gap in the proof closed (Theorem 2); on the geometric grid,
regret of order d^(3/2) / |theta| (T/d^2)^(1/M) up to logarithms (Theorem 3). Same conditions on
contexts.

T^(M) would only be used after the last batch, so its outcomes are not collected. Memory is M - 1
times that of SBPE.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch.core import Contexts, Problem, arguments, least_squares
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.estimate import warn_if_deficient
from seqbatch.policies.base import GreedyPolicy, Ranking, State
from seqbatch.policies.choice import lowest, surely
from seqbatch.policies.rule import Rule


@dataclass(frozen=True, kw_only=True)
class BPE(GreedyPolicy):
    """Batched pure exploitation with sample splitting (Algorithm 5).

    Parameters
    ----------
    split
        ``"even"``: M intervals in every batch, as in the paper, with boundaries floor(j n / M).
        ``"needed"``: batch m' is split only into the intervals m' to M - 1 that later estimates
        use; no data are wasted, and independence is preserved.
    first
        ``"fixed"``: the first batch plays action 0, as in the paper, or a unit's lowest eligible
        action. ``"uniform"``: a random one.
    ties, unknown
        See :class:`~seqbatch.policies.base.GreedyPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(BPE(), grids.explicit([6, 9]), actions=2, dim=1)
    >>> x = np.ones((6, 2, 1)) * [[1.0], [-1.0]]
    >>> learner.assign(x).groups
    array([ 0,  0,  0, -1, -1, -1])
    >>> learner.observe([1.0, 1.0, 1.0, 9.0, 9.0, 9.0])
    >>> learner.estimate.theta
    array([[1.]])
    """

    split: Literal["even", "needed"] = "even"

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"split": "needed"},
        {"first": "uniform", "ties": "random"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("split", self.split, ("even", "needed"))

    def groups(self, problem: Problem) -> int:
        """Keep T^(1) to T^(M-1) separate."""
        return max(problem.batches - 1, 1)

    def group_of(self, state: State, positions: Integers) -> Integers:
        """Return the interval of each unit, or -1 where no estimate will use it.

        Interval j of n units, from 0, starts at floor(j n / pieces): the last j with
        floor(j n / pieces) <= i is ceil((i + 1) pieces / n) - 1.
        """
        M, m = state.problem.batches, state.batch
        if (pieces := self._pieces(state)) == 0:
            return np.full(len(positions), -1, dtype=np.int64)
        intervals = ((positions + 1) * pieces - 1) // state.problem.size(m)
        groups = intervals if self.split == "even" else intervals + m - 1
        # Estimate j uses batches 1 to j: earlier intervals of this batch are too late for theirs.
        return np.where((groups >= m - 1) & (groups < M - 1), groups, -1)

    def intervals(self, state: State) -> list[tuple[int, int, int]]:
        """Return the intervals that an estimate will use."""
        size, pieces = state.problem.size(state.batch), self._pieces(state)
        cuts = [j * size // pieces for j in range(pieces + 1)] if pieces else []
        parts = [(low, high) for low, high in pairwise(cuts) if high > low]
        groups = self.group_of(state, np.array([low for low, _ in parts], dtype=np.int64))
        return [(int(g), *part) for g, part in zip(groups, parts, strict=True) if g >= 0]

    def still_used(self, state: State, groups: Integers) -> Bools:
        """Return which intervals will still be fitted: interval m is fitted once, as m closes."""
        return super().still_used(state, groups) & (groups >= state.batch - 1)

    def known(self, state: State) -> Bools:
        """Return for which models the fitted interval has outcomes."""
        return state.evidence[max(state.batch - 2, 0)].count > 0

    def _pieces(self, state: State) -> int:
        """Return the number of intervals of the open batch."""
        M, m = state.problem.batches, state.batch
        return M if self.split == "even" else M - m

    def prefer(
        self, state: State, contexts: Contexts, ranking: Ranking, draws: Floats
    ) -> tuple[Integers, Floats]:
        """Play the lowest action in the first batch, whatever `ties` says; then be greedy."""
        if state.batch > 1:
            return super().prefer(state, contexts, ranking, draws)
        if contexts.eligible is not None:
            return lowest(contexts.eligible)
        return surely(np.zeros(len(contexts), dtype=np.int64), state.problem.actions)

    def preference(self, state: State) -> Rule:
        """Return `prefer` as a rule."""
        return super().preference(state) if state.batch > 1 else Rule(kind="fixed", action=0)

    def estimate(self, state: State) -> State:
        """Fit T^(m) only, as batch m closes."""
        if state.batch >= state.problem.batches:
            return state
        evidence = state.evidence[state.batch - 1]
        fitted = least_squares(evidence)
        warned = state.warned or warn_if_deficient(
            fitted, evidence, type(self).__name__, state.problem.models
        )
        return replace(state, estimates=(fitted,), warned=warned)

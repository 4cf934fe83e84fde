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
from typing import Any, ClassVar, Literal

from seqbatch.core import Problem, Statistics, arguments, least_squares
from seqbatch.core.arrays import Bools, Integers
from seqbatch.core.regression import warn_if_deficient
from seqbatch.policies.base import GreedyPolicy, State
from seqbatch.policies.rule import Intervals, Rule


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
        action. ``"uniform"``: a random one. None: ``"fixed"`` in the shared layout, ``"uniform"``
        in the others.
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

    def intervals(self, state: State) -> Intervals:
        """Cut the batch into M intervals, or into those that later estimates use."""
        M, m = state.problem.batches, state.batch
        even = self.split == "even"
        # Estimate j uses batches 1 to j: earlier intervals of this batch come too late for theirs.
        return Intervals(
            size=state.problem.size(m),
            pieces=M if even else M - m,
            first=0 if even else m - 1,
            used=(m - 1, M - 1),
        )

    def still_used(self, state: State, groups: Integers) -> Bools:
        """Return which intervals will still be fitted: interval m is fitted once, as m closes."""
        return super().still_used(state, groups) & (groups >= state.batch - 1)

    def evidence_used(self, state: State) -> Statistics:
        """Return the evidence of the fitted interval; the last batch fits none."""
        return state.evidence[min(max(state.batch - 2, 0), len(state.evidence) - 1)]

    def preference(self, state: State) -> Rule:
        """Play action 0 in the first batch, whatever the rule for ties; then be greedy."""
        preferred = super().preference(state)
        return preferred if state.batch > 1 else replace(preferred, kind="fixed", action=0)

    def refit(self, state: State) -> State:
        """Fit T^(m) only, as batch m closes."""
        if state.batch >= state.problem.batches:
            return state
        evidence = state.evidence[state.batch - 1]
        fitted = least_squares(evidence)
        warned = state.warned or warn_if_deficient(
            fitted, evidence, type(self).__name__, state.problem.models
        )
        return replace(state, estimates=(fitted,), warned=warned)

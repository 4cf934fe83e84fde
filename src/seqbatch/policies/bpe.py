"""BPE: pure exploitation with sample splitting (Algorithm 5).

Every batch is cut into M intervals, and the estimate used in batch m + 1 is fitted on interval m
of batches 1 to m alone. No outcome is used in two estimates, so that rewards stay independent
given the contexts chosen: what SBPE's proof lacks. The price is that an estimate sees one M-th of
the data.

*Guarantee.* As for SBPE with the gap closed (Theorem 2); on the geometric grid regret of order
d^(3/2) / |theta| (T/d^2)^(1/M) up to logarithms (Theorem 3). The same conditions on contexts.

T^(M) would only be used after the last batch; its outcomes are not collected. Memory is M - 1 times
SBPE's.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from seqbatch.core import Problem, arguments, least_squares
from seqbatch.core.arrays import Bools, Integers
from seqbatch.core.estimate import warn_if_deficient
from seqbatch.policies.base import GreedyPolicy, State
from seqbatch.policies.rule import Intervals, Rule


@dataclass(frozen=True, kw_only=True)
class BPE(GreedyPolicy):
    """Batched pure exploitation with sample splitting (Algorithm 5).

    Parameters
    ----------
    split
        ``"even"``: M intervals in every batch, as in the paper, with boundaries floor(j n / M).
        ``"needed"``: batch m' is cut only into the intervals m' to M - 1 that later estimates
        use; nothing is wasted and the independence is kept.
    first
        ``"fixed"``: the first batch plays action 0, as in the paper, or a unit's lowest eligible
        action. ``"uniform"``: random.
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
        """Keep T^(1) to T^(M-1) apart."""
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
        """Say which intervals are still to be fitted: interval m is fitted once, as m closes."""
        return super().still_used(state, groups) & (groups >= state.batch - 1)

    def known(self, state: State) -> Bools:
        """Say of which models the interval that the estimate was fitted on has outcomes."""
        return state.evidence[max(state.batch - 2, 0)].count > 0

    def preference(self, state: State) -> Rule:
        """Play action 0 in the first batch, whatever the rule for ties; then be greedy."""
        preferred = super().preference(state)
        return preferred if state.batch > 1 else replace(preferred, kind="fixed", action=0)

    def estimate(self, state: State) -> State:
        """Fit T^(m) alone, as batch m closes."""
        if state.batch >= state.problem.batches:
            return state
        evidence = state.evidence[state.batch - 1]
        fitted = least_squares(evidence)
        warned = state.warned or warn_if_deficient(
            fitted, evidence, type(self).__name__, state.problem.models
        )
        return replace(state, estimates=(fitted,), warned=warned)

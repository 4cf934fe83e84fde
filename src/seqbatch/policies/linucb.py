"""LinUCB: SBUCB with one unit per batch (the remark after Algorithm 1).

The fully online baseline: every outcome is known before the next unit is assigned. It shows
what batching costs.

*Guarantee.* That of SBUCB with M = T: regret of order sqrt(d T) up to logarithms, with the same gap
between the algorithm and its proof.
"""

from dataclasses import dataclass

from seqbatch.core import Contexts, Problem, kernels
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import State
from seqbatch.policies.sbucb import SBUCB


@dataclass(frozen=True, kw_only=True)
class LinUCB(SBUCB):
    """Online UCB: SBUCB restricted to grids with one unit per batch.

    Parameters
    ----------
    gamma, ridge, first, ties
        As for :class:`~seqbatch.policies.SBUCB`.

    Examples
    --------
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(LinUCB(gamma=6.0), grids.online(units=100), actions=2, dim=3)
    >>> learner.units_left
    1
    """

    def begin(self, problem: Problem) -> State:
        """Refuse grids with larger batches and return the initial state."""
        if problem.batches != problem.units:
            raise InvalidArgumentError(
                "grid",
                "one unit per batch for LinUCB",
                f"{problem.batches} batches for {problem.units} units",
                "Use an online grid, or SBUCB for larger batches.",
            )
        return super().begin(problem)

    def replay(
        self, state: State, contexts: Contexts, table: Floats, draws: Floats
    ) -> tuple[State, Integers]:
        """Play against a table of every action's reward, with rank-one updates.

        The estimates are recomputed from the evidence at fixed intervals, which keeps them equal
        to those of `close` up to rounding, however long the run.
        """
        if state.batch == 1 and self.first == "design":
            return self.replayed_after_design(state, contexts, table, draws)
        return self.replayed(
            state, contexts, table, draws, len(contexts), kernels.replay_online_ucb
        )

"""Any linear policy on batches of any size, with a few units standing for each batch.

Where a policy looks at more than estimated means (confidence widths, posterior draws), a batch
cannot be drawn as a sum. Instead at most `most` of its units are drawn, and their sums are weighted
up to the batch's size, with noise of the batch's own variance. The policy's own functions decide
and learn. Good for comparing policies, where all share the approximation; in few dimensions also
for their level.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core import Contexts, Layout, Problem, Statistics
from seqbatch.core.arrays import Floats
from seqbatch.policies.base import LinearPolicy


@dataclass(frozen=True, eq=False)
class ThinnedTrial:
    """One true parameter, and where contexts come from.

    Parameters
    ----------
    theta
        The true parameter, shape (models, dim).
    noise
        The standard deviation of the reward's noise.
    actions, layout
        See :class:`~seqbatch.core.problem.Problem`.
    contexts
        Called with a generator and a number of units; returns their contexts in the layout.
    """

    theta: Floats
    noise: float
    actions: int
    layout: Layout
    contexts: Callable[[Generator, int], Floats]

    def regret(
        self, policy: LinearPolicy, sizes: Sequence[int], random: Generator, *, most: int = 1024
    ) -> float:
        """Return the regret of a policy on batches of these sizes."""
        problem = Problem(
            ends=tuple(int(end) for end in np.cumsum(sizes)),
            actions=self.actions,
            dim=self.theta.shape[1],
            layout=self.layout,
        )
        state, total = policy.begin(problem), 0.0
        for batch, size in enumerate(sizes, start=1):
            used = min(size, most)
            contexts = Contexts(self.contexts(random, used), problem)
            positions = np.arange(used) * size // used
            decision = policy.assign(state, contexts, random.random(used), positions)
            means = contexts.means(self.theta)
            gained = means[np.arange(used), decision.actions]
            total += size / used * float((means.max(axis=1) - gained).sum())
            if batch < len(sizes):
                vectors = contexts.chosen(decision.actions)
                blur = self.noise * random.standard_normal(used)
                models = decision.actions if problem.models > 1 else np.zeros(used, dtype=np.int64)
                sums = _weighted(problem, vectors, gained, blur, models, size / used)
                state = policy.close(policy.absorb(state, 0, sums))
        return total


def _weighted(
    problem: Problem,
    vectors: Floats,
    means: Floats,
    noise: Floats,
    models: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    weight: float,
) -> Statistics:
    """Return the sums of units that each stand for `weight` of them.

    The squared rewards lack a part of the noise; no policy reads them.
    """
    # Noise shrunk by the root of the weight and then weighted has the variance of all units.
    rewards = means + noise / np.sqrt(weight)
    sums = Statistics.zero(problem.models, problem.dim).add(vectors, rewards, models)
    return Statistics(
        gram=weight * sums.gram,
        moment=weight * sums.moment,
        squares=weight * sums.squares,
        count=np.rint(weight * sums.count).astype(np.int64),
    )

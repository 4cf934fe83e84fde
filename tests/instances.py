"""Random problems, in any layout, and how to run a learner on them."""

from dataclasses import dataclass

import numpy as np

from seqbatch import Learner, grids
from seqbatch.learner import draws_from


@dataclass(frozen=True)
class Instance:
    layout: str
    contexts: np.ndarray
    long: np.ndarray
    table: np.ndarray
    grid: grids.Grid
    seed: int
    eligible: np.ndarray | None = None

    @property
    def actions(self):
        return self.table.shape[1]

    @property
    def ends(self):
        return self.grid.ends

    @property
    def draws(self):
        return draws_from(self.seed).random(len(self.table))

    def learner(self, policy):
        return Learner(
            policy,
            self.grid,
            actions=self.actions,
            dim=self.contexts.shape[-1],
            layout=self.layout,
            seed=self.seed,
        )

    def who_may(self, low, high):
        return None if self.eligible is None else self.eligible[low:high]

    def run(self, policy, *, cut=True):
        """Play the grid, each batch in pieces of random sizes; return learner and decisions."""
        learner, decisions, start = self.learner(policy), [], 0
        random = np.random.default_rng(self.seed + 1)
        for end in self.ends:
            cuts = np.sort(random.integers(start, end + 1, 3 if cut else 0))
            batch = [
                learner.assign(self.contexts[low:high], eligible=self.who_may(low, high))
                for low, high in zip([start, *cuts], [*cuts, end], strict=True)
            ]
            chosen = np.concatenate([decision.actions for decision in batch])
            learner.observe(self.table[np.arange(start, end), chosen])
            decisions += batch
            start = end
        return learner, decisions


def instance(seed, layout, *, units=2_000, batches=None):
    """Make a random instance: K up to 7, d up to 40 in the long form, a random grid."""
    random = np.random.default_rng(seed)
    T = int(random.integers(units // 4, units + 1))
    K = int(random.integers(2, 8))
    dim = (
        int(random.integers(1, 41)) if layout == "shared" else int(random.integers(1, 40 // K + 1))
    )
    M = batches or int(random.integers(2, 9))
    ends = np.sort(random.choice(np.arange(1, T), M - 1, replace=False))
    shape = (T, dim) if layout == "block" else (T, K, dim)
    contexts = random.standard_normal(shape) / np.sqrt(dim)
    models = 1 if layout == "shared" else K
    long = contexts if layout == "shared" else long_form(contexts, K)
    theta = random.standard_normal(models * dim)
    table = long @ theta + 0.5 * random.standard_normal((T, K))
    return Instance(layout, contexts, long, table, grids.explicit([*ends.tolist(), T]), seed)


def long_form(contexts, K):
    """Put each action's vector into its block of a long zero vector, one by one."""
    T, p = contexts.shape[0], contexts.shape[-1]
    long = np.zeros((T, K, p * K))
    for t in range(T):
        for a in range(K):
            long[t, a, a * p : (a + 1) * p] = contexts[t] if contexts.ndim == 2 else contexts[t, a]
    return long


def actions_of(decisions):
    return np.concatenate([decision.actions for decision in decisions])

"""A batched experiment unit by unit: the policy's own code, and what happens beside it.

As a campaign runs it: some units are randomised, the others get the policy's probabilities above a
floor, some outcomes never come, and the rest come some batches late.
"""

import numpy as np

from seqbatch.core import Contexts, Problem
from seqbatch.policies.base import Feedback
from seqbatch.policies.choice import pick, uniformly


def regret(policy, model, sizes, seed):
    """Return what a policy loses on normal contexts, with parameters of the model's law."""
    random, conduct = np.random.default_rng(seed), model.conduct
    [(effect, noise)] = model.scenarios
    models = 1 if model.layout == "shared" else model.actions
    theta = model.spread(effect) * random.standard_normal((models, model.dim))
    ends = tuple(int(end) for end in np.cumsum(sizes))
    problem = Problem(ends=ends, actions=model.actions, dim=model.dim, layout=model.layout)
    state, total, late = policy.begin(problem), 0.0, []
    for number, size in enumerate(sizes, start=1):
        contexts = Contexts(_drawn(model, random, size), problem)
        actions = _acted(policy.assign(state, contexts, random.random(size), np.arange(size)),
                         conduct, random)  # fmt: skip
        means = contexts.means(theta)
        gained = means[np.arange(size), actions]
        total += float((means.max(axis=1) - gained).sum())
        back = np.flatnonzero(random.random(size) >= conduct.missing)
        rewards = gained + noise * random.standard_normal(size)
        vectors, groups = contexts.chosen(actions), np.zeros(size, dtype=np.int64)
        late.append(Feedback(vectors[back], actions[back], groups[back], rewards[back]))
        if number > conduct.delay:
            state = policy.learn(state, late.pop(0))
        if number < len(sizes):
            state = policy.close(state)
    return total


def _drawn(model, random, size):
    if model.layout == "shared":
        return random.standard_normal((size, model.actions, model.dim))
    return np.column_stack([np.ones(size), random.standard_normal((size, model.dim - 1))])


def _acted(decision, conduct, random):
    """Return actions by the formula of the campaigns' decisions."""
    size, actions = decision.probabilities.shape
    draws = random.random(size)
    mixed = conduct.floor + (1 - actions * conduct.floor) * decision.probabilities
    randomised = random.random(size) < conduct.randomised
    return np.where(randomised, uniformly(size, actions, draws)[0], pick(mixed, draws)[0])

"""Batches in which some actions are short: ridge regression, and assignments solved as such."""

import numpy as np
from scipy.optimize import linear_sum_assignment


def best_within(scores, room):
    """Return the assignment of the highest sum of scores with at most `room` units an action."""
    slots = np.repeat(np.arange(scores.shape[1]), np.minimum(room, len(scores)))
    units, places = linear_sum_assignment(scores[:, slots], maximize=True)
    actions = np.empty(len(scores), dtype=np.int64)
    actions[units] = slots[places]
    return actions


def regret(model, sizes, seed):
    """Return what greedy batches within capacities lose against the best such assignment."""
    random = np.random.default_rng(seed)
    [(effect, noise)] = model.scenarios
    actions, dim = model.actions, model.dim
    penalty = (noise / model.spread(effect)) ** 2 * np.eye(dim)
    theta = model.spread(effect) * random.standard_normal((actions, dim))
    gram, moment, total = np.zeros((actions, dim, dim)), np.zeros((actions, dim)), 0.0
    for number, size in enumerate(sizes):
        rows = np.column_stack([np.ones(size), random.standard_normal((size, dim - 1))])
        room = np.floor(np.array(model.conduct.capacity) * size + 1e-9).astype(int)
        if number == 0:
            slots = np.repeat(np.arange(actions), _even(room, size))
            chosen = random.permutation(slots)
        else:
            guess = np.stack(
                [np.linalg.solve(gram[a] + penalty, moment[a]) for a in range(actions)]
            )
            chosen = best_within(rows @ guess.T, room)
        means, units = rows @ theta.T, np.arange(size)
        total += means[units, best_within(means, room)].sum() - means[units, chosen].sum()
        rewards = means[units, chosen] + noise * random.standard_normal(size)
        for a in range(actions):
            own = chosen == a
            gram[a] += rows[own].T @ rows[own]
            moment[a] += rewards[own] @ rows[own]
    return total


def _even(room, size):
    """Return counts as even as the room allows."""
    counts = np.zeros(len(room), dtype=int)
    for _ in range(size):
        counts[np.where(counts < room, counts, size + 1).argmin()] += 1
    return counts

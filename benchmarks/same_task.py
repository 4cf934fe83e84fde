"""The same task in other code: two libraries, a plain compiled loop, the dense textbook."""

import warnings

import numpy as np
from numba import njit

from seqbatch.core.arrays import Floats, Integers


def mabwiser(vectors: Floats, table: Floats, ends: list[int], gamma: float) -> Integers:
    """MABWiser's LinUCB, fitted at the end of each batch; the first batch plays action 0."""
    from mabwiser.mab import MAB, LearningPolicy

    model = MAB(list(range(table.shape[1])), LearningPolicy.LinUCB(alpha=gamma, l2_lambda=1.0))
    actions, start = np.zeros(ends[-1], dtype=np.int64), 0
    for end in ends:
        batch = vectors[start:end]
        if start:
            actions[start:end] = model.predict(batch)
        rewards = table[np.arange(start, end), actions[start:end]]
        learn = model.partial_fit if start else model.fit
        learn(actions[start:end], rewards, batch)
        start = end
    return actions


def contextualbandits(vectors: Floats, table: Floats, ends: list[int], gamma: float) -> Integers:
    """Contextualbandits' LinUCB in its batch mode, given the same batches."""
    from contextualbandits.online import LinUCB

    actions, start = np.zeros(ends[-1], dtype=np.int64), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinUCB(
            nchoices=table.shape[1],
            alpha=gamma,
            lambda_=1.0,
            fit_intercept=False,
            use_float=False,
            ucb_from_empty=True,
            random_state=1,
        )
        for end in ends:
            batch = vectors[start:end]
            if start:
                actions[start:end] = model.predict(batch)
            rewards = table[np.arange(start, end), actions[start:end]]
            learn = model.partial_fit if start else model.fit
            learn(batch, actions[start:end], rewards)
            start = end
    return actions


@njit(cache=True, fastmath=True)
def rank_one_loop(vectors: Floats, table: Floats, gamma: float) -> Integers:
    """The plain compiled loop: inverses by rank-one updates, unit by unit, never refreshed."""
    units, dim = vectors.shape
    K = table.shape[1]
    inverse, theta = np.zeros((K, dim, dim)), np.zeros((K, dim))
    for a in range(K):
        for i in range(dim):
            inverse[a, i, i] = 1.0
    images, actions = np.empty((K, dim)), np.empty(units, dtype=np.int64)
    for t in range(units):
        v, best, highest = vectors[t], 0, -np.inf
        for a in range(K):
            width, mean = 0.0, 0.0
            for i in range(dim):
                total = 0.0
                for j in range(dim):
                    total += inverse[a, i, j] * v[j]
                images[a, i] = total
                width += total * v[i]
                mean += theta[a, i] * v[i]
            score = mean + gamma * np.sqrt(width)
            if score > highest:
                best, highest = a, score
        actions[t] = best
        u, mean, width = images[best], 0.0, 1.0
        for i in range(dim):
            mean += theta[best, i] * v[i]
            width += u[i] * v[i]
        gain = (table[t, best] - mean) / width
        for i in range(dim):
            theta[best, i] += gain * u[i]
            for j in range(dim):
                inverse[best, i, j] -= u[i] * u[j] / width
    return actions


@njit(cache=True, fastmath=True)
def batched_unit_loop(vectors: Floats, table: Floats, ends: Integers, gamma: float) -> Integers:
    """A plain compiled loop over units, with inverses that are rebuilt at each batch's end."""
    units, dim = vectors.shape
    K = table.shape[1]
    gram, moment = np.zeros((K, dim, dim)), np.zeros((K, dim))
    inverse, theta = np.zeros((K, dim, dim)), np.zeros((K, dim))
    for a in range(K):
        for i in range(dim):
            gram[a, i, i] = inverse[a, i, i] = 1.0
    actions = np.empty(units, dtype=np.int64)
    start = 0
    for end in ends:
        for t in range(start, end):
            v, best, highest = vectors[t], 0, -np.inf
            for a in range(K):
                width, mean = 0.0, 0.0
                for i in range(dim):
                    total = 0.0
                    for j in range(dim):
                        total += inverse[a, i, j] * v[j]
                    width += total * v[i]
                    mean += theta[a, i] * v[i]
                score = mean + gamma * np.sqrt(width)
                if score > highest:
                    best, highest = a, score
            actions[t] = best
        for t in range(start, end):
            v, a = vectors[t], actions[t]
            for i in range(dim):
                moment[a, i] += table[t, a] * v[i]
                for j in range(dim):
                    gram[a, i, j] += v[i] * v[j]
        for a in range(K):
            inverse[a] = np.linalg.inv(gram[a])
            theta[a] = inverse[a] @ moment[a]
        start = end
    return actions


def dense_textbook(vectors: Floats, table: Floats, ends: list[int], gamma: float) -> Integers:
    """The textbook in the paper's long form: d = p K, an inverse a unit, action by action."""
    units, p = vectors.shape
    K = table.shape[1]
    A, b = np.eye(p * K), np.zeros(p * K)
    A_known, b_known = A.copy(), b.copy()
    actions, next_end = np.empty(units, dtype=np.int64), iter(ends)
    end = next(next_end)
    for t in range(units):
        A_inverse = np.linalg.inv(A_known)
        theta = A_inverse @ b_known
        scores = []
        for a in range(K):
            x = np.zeros(p * K)
            x[a * p : (a + 1) * p] = vectors[t]
            scores.append(x @ theta + gamma * np.sqrt(x @ A_inverse @ x))
        actions[t] = int(np.argmax(scores))
        x = np.zeros(p * K)
        x[actions[t] * p : (actions[t] + 1) * p] = vectors[t]
        A += np.outer(x, x)
        b += table[t, actions[t]] * x
        if t + 1 == end:
            A_known, b_known = A.copy(), b.copy()
            end = next(next_end, -1)
    return actions

"""Algorithm 1, SBUCB."""

import math

import numpy as np

from tests.oracles import allowed, batches, best, inner, tries, uniform_action


def sbucb(x, table, ends, *, gamma, ridge, first="fixed", ties="lowest", draws=None, eligible=None):
    T, K, d = x.shape
    if gamma is None:
        delta = 1 / T
        gamma = 1 + math.sqrt(0.5 * math.log(2 * K * T / delta))
    A, b = ridge * np.eye(d), np.zeros(d)
    theta = np.zeros(d)
    actions = []
    for m, batch in enumerate(batches(ends), start=1):
        A_inverse = np.linalg.inv(A)
        for t in batch:
            options = allowed(eligible, t, K)
            scores = [
                inner(x[t, a], theta) + gamma * math.sqrt(inner(x[t, a], A_inverse @ x[t, a]))
                for a in options
            ]
            if (m == 1 and first == "uniform") or tries(first, options, actions[: batch.start]):
                actions.append(uniform_action(options, draws[t]))
            else:
                actions.append(options[best(scores, ties, draws[t])])
        for t in batch:
            chosen = x[t, actions[t]]
            A = A + np.outer(chosen, chosen)
            b = b + table[t, actions[t]] * chosen
        theta = np.linalg.solve(A, b)
    return actions

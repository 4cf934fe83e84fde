"""Algorithms 2 and 3, SupSBUCB and BaseSBUCB."""

import math

import numpy as np

from tests.oracles import allowed, batches, best, inner, uniform_action


def base_sbucb(psi, x, table, actions, ridge):
    d = x.shape[2]
    A, c = ridge * np.eye(d), np.zeros(d)
    for tau in psi:
        chosen = x[tau, actions[tau]]
        A = A + np.outer(chosen, chosen)
        c = c + table[tau, actions[tau]] * chosen
    return np.linalg.solve(A, c), np.linalg.inv(A)


def supsbucb(
    x, table, ends, *,
    gamma, ridge, explore, first="fixed", ties="lowest", draws=None, eligible=None,
):  # fmt: skip
    """Return actions, stages and rules."""
    T, K, _ = x.shape
    S = max(1, math.ceil(math.log(T)))
    psi = {s: [] for s in range(1, S + 1)}
    actions, stages, rules = [], [], []
    for m, batch in enumerate(batches(ends), start=1):
        fits = {s: base_sbucb(psi[s], x, table, actions, ridge) for s in psi}
        following = {s: list(psi[s]) for s in psi}
        for t in batch:
            s, candidates, action = 1, allowed(eligible, t, K), None
            while action is None:
                theta, inverse = fits[s]
                w = {a: gamma * math.sqrt(inner(x[t, a], inverse @ x[t, a])) for a in candidates}
                upper = {a: inner(x[t, a], theta) + w[a] for a in candidates}
                if all(w[a] <= 1 / math.sqrt(T) for a in candidates):
                    pool, value, rule = candidates, upper, "a"
                elif all(w[a] <= 2.0**-s for a in candidates):
                    top = max(upper.values())
                    candidates = [a for a in candidates if upper[a] >= top - 2.0 ** (1 - s)]
                    s += 1
                    continue
                else:
                    pool, rule = [a for a in candidates if w[a] > 2.0**-s], "c"
                    value = {
                        "highest": upper,
                        "widest": w,
                        "first": {a: -a for a in pool},
                    }[explore]
                action = pool[best([value[a] for a in pool], ties, draws[t])]
                if m == 1 and first == "uniform":
                    action = uniform_action(allowed(eligible, t, K), draws[t])
                if rule == "c":
                    following[s].append(t)
            actions.append(action)
            stages.append(s)
            rules.append(rule)
        psi = following
    return actions, stages, rules

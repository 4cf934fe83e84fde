"""Algorithms 4 and 5, SBPE and BPE, and the baselines of Section 6.2, RBGL and LBGL."""

import math

import numpy as np

from tests.oracles import allowed, batches, best, inner, minimum_norm, tries, uniform_action


def greedy_batches(x, ends, fit, *, first, ties, draws, eligible, avoid=None):
    """Play greedily; after batch m, fit and avoid return theta and the actions without outcomes."""
    K, d = x.shape[1:]
    theta, actions, thetas, unknown = np.zeros(d), [], [], set()
    for m, batch in enumerate(batches(ends), start=1):
        for t in batch:
            options = allowed(eligible, t, K)
            familiar = [a for a in options if a not in unknown]
            lost = (m == 1 and first == "uniform") or not familiar
            if lost or tries(first, options, actions[: batch.start]):
                actions.append(uniform_action(options, draws[t]))
            elif m == 1 and first == "lowest":
                actions.append(options[0])
            else:
                scores = [inner(x[t, a], theta) for a in familiar]
                actions.append(familiar[best(scores, ties, draws[t])])
        if m < len(ends):
            theta = fit(m, actions)
            thetas.append(theta)
            unknown = avoid(m, actions) if avoid else set()
    return actions, thetas


def sbpe(x, table, ends, *, first="fixed", ties="lowest", draws=None, eligible=None):
    def fit(m, actions):
        rows = [x[t, actions[t]] for t in range(ends[m - 1])]
        rewards = [table[t, actions[t]] for t in range(ends[m - 1])]
        return minimum_norm(rows, rewards, x.shape[2])

    return greedy_batches(x, ends, fit, first=first, ties=ties, draws=draws, eligible=eligible)


def rbgl(
    x,
    table,
    ends,
    *,
    ridge,
    first="fixed",
    ties="lowest",
    unknown="zero",
    delay=0,
    draws=None,
    eligible=None,
):
    def fit(m, actions):
        A, b = ridge * np.eye(x.shape[2]), np.zeros(x.shape[2])
        # Outcomes are known `delay` batches later.
        for t in range(ends[m - 1 - delay] if m > delay else 0):
            A = A + np.outer(x[t, actions[t]], x[t, actions[t]])
            b = b + table[t, actions[t]] * x[t, actions[t]]
        return np.linalg.solve(A, b)

    def avoid(m, actions):
        return set(range(x.shape[1])) - set(actions[: ends[m - 1]]) if unknown == "avoid" else set()

    return greedy_batches(
        x, ends, fit, first=first, ties=ties, draws=draws, eligible=eligible, avoid=avoid
    )


def bpe(x, table, ends, *, split="even", first="fixed", ties="lowest", draws=None, eligible=None):
    M = len(ends)
    pieces = {}
    for m, batch in enumerate(batches(ends), start=1):
        numbers = range(1, M + 1) if split == "even" else range(m, M)
        cuts = [j * len(batch) // len(numbers) for j in range(len(numbers) + 1)] if numbers else []
        for j, number in enumerate(numbers):
            pieces[m, number] = list(batch)[cuts[j] : cuts[j + 1]]

    def fit(m, actions):
        used = [t for earlier in range(1, m + 1) for t in pieces[earlier, m]]
        rows = [x[t, actions[t]] for t in used]
        rewards = [table[t, actions[t]] for t in used]
        return minimum_norm(rows, rewards, x.shape[2])

    start = "lowest" if first == "fixed" else first
    return greedy_batches(x, ends, fit, first=start, ties=ties, draws=draws, eligible=eligible)


def lasso_by_coordinates(rows, rewards, penalty):
    """Minimise |y - X theta|^2 / (2 n) + penalty |theta|_1, one coordinate at a time."""
    X, y = np.array(rows), np.array(rewards)
    n, d = X.shape
    theta = np.zeros(d)
    for _ in range(100_000):
        before = theta.copy()
        for j in range(d):
            size = X[:, j] @ X[:, j] / n
            if size == 0:
                continue
            pull = X[:, j] @ (y - X @ theta + X[:, j] * theta[j]) / n
            theta[j] = math.copysign(max(abs(pull) - penalty, 0.0), pull) / size
        if np.abs(theta - before).max() < 1e-14:
            return theta
    raise AssertionError("coordinate descent did not settle")


def lbgl(x, table, ends, *, scale, first="uniform", ties="lowest", draws=None, eligible=None):
    T, K, d = x.shape

    def fit(m, actions):
        seen = ends[m - 1]
        penalty = scale * math.sqrt(2 * math.log(K) * (math.log(d) + 2 * math.log(T)) / seen)
        rows = [x[t, actions[t]] for t in range(seen)]
        rewards = [table[t, actions[t]] for t in range(seen)]
        theta = lasso_by_coordinates(rows, rewards, penalty)
        theta[np.abs(theta) < 1e-12] = 0.0
        return theta

    return greedy_batches(x, ends, fit, first=first, ties=ties, draws=draws, eligible=eligible)


def epsilon_greedy(x, table, ends, *, epsilon, ridge, first="fixed", draws=None, eligible=None):
    K, d = x.shape[1:]
    A, b, actions = ridge * np.eye(d), np.zeros(d), []
    for m, batch in enumerate(batches(ends), start=1):
        theta = np.linalg.solve(A, b)
        for t in batch:
            options = allowed(eligible, t, K)
            count = len(options)
            favourite = best([inner(x[t, a], theta) for a in options], "lowest", None)
            shares = [epsilon / count + (1 - epsilon) * (i == favourite) for i in range(count)]
            if m == 1 and first == "uniform":
                shares = [1 / count] * count
            total, place = 0.0, 0
            while place < count - 1 and draws[t] >= total + shares[place]:
                total += shares[place]
                place += 1
            actions.append(options[place])
        for t in batch:
            A = A + np.outer(x[t, actions[t]], x[t, actions[t]])
            b = b + table[t, actions[t]] * x[t, actions[t]]
    return actions

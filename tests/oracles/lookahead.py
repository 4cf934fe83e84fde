"""Lookahead, literally: one row, one action and one quasi-normal vector at a time.

After the description: block layout, posterior N(m_a, S_a), noise s2, rows X of the wave and E of
those to come, Frank-Wolfe over 16 rules.
"""

import math
from functools import cache

import numpy as np
from scipy.stats import norm

BASES = [2, 3, 5, 7]


def posterior(rows, rewards, actions, K, ridge):
    """Ridge regression of each action, with the variance of all residuals of least squares."""
    means, inverses, residuals, spare = [], [], 0.0, 0
    for a in range(K):
        X, y = rows[actions == a], rewards[actions == a]
        A = ridge * np.eye(rows.shape[1]) + X.T @ X
        means.append(np.linalg.solve(A, X.T @ y))
        inverses.append(np.linalg.inv(A))
        theta, _, rank, _ = np.linalg.lstsq(X, y, rcond=None)
        residuals += float(((y - X @ theta) ** 2).sum())
        spare += len(y) - rank
    s2 = residuals / spare
    return means, [s2 * inverse for inverse in inverses], s2


def horizon(n, rest, after):
    return (n, rest + after) if after <= rest else (n + rest, after)


def halton(number, base):
    value, scale = 0.0, 1.0
    while number:
        scale /= base
        value += scale * (number % base)
        number //= base
    return value


@cache
def vectors(K):
    return [[norm.ppf(halton(i, base)) for base in BASES[:K]] for i in range(1, 49)]


def spreads(S, s2, X, E, q, N):
    """C_a = (S_a^-1 + (N/n) sum_i q_ia X_i X_i' / s2)^-1 and s_ja = sqrt(E_j'(S_a - C_a)E_j)."""
    C = []
    for a in range(len(S)):
        total = np.linalg.inv(S[a])
        for i in range(len(X)):
            total = total + N / len(X) * q[i][a] * np.outer(X[i], X[i]) / s2
        C.append(np.linalg.inv(total))
    return C, [[math.sqrt(max(x @ (S[a] - C[a]) @ x, 0)) for a in range(len(S))] for x in E]


def gradient(m, S, s2, X, E, q, N, w):
    """H_a = (w/J) sum_j g_ja C_a E_j E_j' C_a / s2."""
    K, J, zs = len(m), len(E), vectors(len(m))
    C, s = spreads(S, s2, X, E, q, N)
    H = [np.zeros_like(S[0]) for _ in range(K)]
    for j in range(J):
        u = [E[j] @ m[a] for a in range(K)]
        for a in range(K):
            g = 0.0
            for z in zs:
                M = max(u[b] + s[j][b] * z[b] for b in range(K) if b != a)
                g += math.exp(-(((M - u[a]) / s[j][a]) ** 2) / 2) / math.sqrt(2 * math.pi) / 48
            g /= 2 * s[j][a]
            H[a] += w / J * g * np.outer(C[a] @ E[j], C[a] @ E[j]) / s2
    return H


def objective(m, S, s2, X, E, q, N, w):
    K = len(m)
    _, s = spreads(S, s2, X, E, q, N)
    earned = sum(q[i][a] * (X[i] @ m[a]) for i in range(len(X)) for a in range(K)) / len(X)
    later = 0.0
    for j in range(len(E)):
        for z in vectors(K):
            later += max(E[j] @ m[a] + s[j][a] * z[a] for a in range(K)) / 48 / len(E)
    return N * earned + w * later


def action(x, m, H):
    scores = [x @ m[a] + x @ H[a] @ x for a in range(len(m))]
    return scores.index(max(scores))


def mixture(m, S, s2, X, E, n, rest, after):
    """Return rules H and their weights."""
    K, (N, w) = len(m), horizon(n, rest, after)
    nothing = [np.zeros_like(S[0]) for _ in range(K)]
    if w == 0:
        return [(1.0, nothing)]
    q, made = [[1 / K] * K for _ in X], []
    for it in range(16):
        H, step = gradient(m, S, s2, X, E, q, N, w), 2 / (it + 2)
        q = [
            [(1 - step) * q[i][a] + step * (a == action(X[i], m, H)) for a in range(K)]
            for i in range(len(X))
        ]
        made = [((1 - step) * weight, rule) for weight, rule in made] + [(step, H)]
    greedy = [[float(a == action(x, m, nothing)) for a in range(K)] for x in X]
    better = objective(m, S, s2, X, E, q, N, w) > objective(m, S, s2, X, E, greedy, N, w)
    return [(weight, H) for weight, H in made if weight >= 1e-4] if better else [(1.0, nothing)]


def chances(x, m, rules):
    """The exact probability of each action for a unit."""
    found = [0.0] * len(m)
    for weight, H in rules:
        found[action(x, m, H)] += weight
    return found


# ----------------------------------------------------------------------
# Without features, two actions: the expected maximum has a closed form (Clark 1961).


def simple_value(q, mu, var, n, w, noise=1.0):
    """N q.mu + w E max, with x = 1 and a share q of action 0."""
    s = [v - 1 / (1 / v + n * share / noise) for v, share in zip(var, (q, 1 - q), strict=True)]
    spread = math.sqrt(sum(s))
    apart = (mu[0] - mu[1]) / spread
    best = mu[0] * norm.cdf(apart) + mu[1] * norm.cdf(-apart) + spread * norm.pdf(apart)
    return n * (q * mu[0] + (1 - q) * mu[1]) + w * best


def best_share(mu, var, n, w):
    """The best share of action 0, by trying 10,001 of them."""
    tried = np.linspace(0, 1, 10_001)
    values = [simple_value(q, mu, var, n, w) for q in tried]
    return float(tried[np.argmax(values)]), max(values)

"""The return model, literally: how likely the outcome of a unit given an action comes back.

A wave is a list of rows as in `inference.py`; y is None where the outcome is missing.
"""

import math

import numpy as np

USUAL = 0.98  # share back at which waves without a missing outcome are expanded


def share(past):
    """Return r, the share of outcomes back over all actions; 1 if none came back."""
    back = sum(row["y"] is not None for row in past)
    return back / len(past) if back else 1.0


def share_back(past, action):
    """Return q_a by action: one prior observation at the overall share."""
    mine = [row for row in past if row["a"] == action]
    return (sum(row["y"] is not None for row in mine) + share(past)) / (len(mine) + 1)


def penalty(P):
    return np.diag([0.001] + [1.0] * (P - 1))


def start(mine, r):
    """Return the start from the sums of one action's rows: q0, g (with its constant), R2, h."""
    P = len(mine[0]["x"])
    S, u, n, n1 = np.zeros((P, P)), np.zeros(P), 0, 0
    for row in mine:
        x = np.array(row["x"], dtype=float)
        S += np.outer(x, x)
        n += 1
        if row["y"] is not None:
            u += x
            n1 += 1
    q0 = min(max((n1 + r) / (n + 1), 0.02), 0.98)
    k = q0 * (1 - q0)
    g = np.linalg.solve(k * S + penalty(P), u - q0 * S[0])
    slopes = g.copy()
    slopes[0] = 0.0
    if n1 == 0:
        h = slopes.copy()
        h[0] = math.log(q0 / (1 - q0))
        return {"q0": q0, "g": g, "R2": 0.0, "h": h}
    m1, m0 = u / n1, (S[0] - u) / (n - n1)
    R2 = min(max(k * float((m1 - m0) @ slopes), 0.0), 0.8)
    h = slopes / (1 - R2)
    h[0] = math.log(q0 / (1 - q0)) - float((m1 + m0) @ h) / 2
    return {"q0": q0, "g": g, "R2": R2, "h": h}


def newton_pass(rows, h):
    """Return H and c of one pass over the rows of a wave given the action."""
    P = len(h)
    H, c = np.zeros((P, P)), np.zeros(P)
    for row in rows:
        x = np.array(row["x"], dtype=float)
        f = 1 / (1 + math.exp(-min(max(float(x @ h), -8.0), 8.0)))
        H += f * (1 - f) * np.outer(x, x)
        c += x * ((row["y"] is not None) - f)
    return H, H @ h + c


def complete_waves(rows, P):
    """Return H and c of waves in which every outcome of the action came back."""
    S = np.zeros((P, P))
    for row in rows:
        S += np.outer(row["x"], row["x"])
    h = np.zeros(P)
    h[0] = math.log(USUAL / (1 - USUAL))
    H = USUAL * (1 - USUAL) * S
    return H, H @ h + (S[0] - USUAL * S[0])


def newton_sums(waves, action):
    """Return the sums of H and c over waves 1 to m, and b; None where no outcome is missing."""
    P = len(waves[0][0]["x"])
    H, c, started = np.zeros((P, P)), np.zeros(P), False
    for m in range(len(waves)):
        past = [row for wave in waves[: m + 1] for row in wave]
        mine = [row for row in past if row["a"] == action]
        if all(row["y"] is not None for row in mine):
            continue
        if not started:
            before = [row for wave in waves[:m] for row in wave if row["a"] == action]
            H, c = complete_waves(before, P)
            started = True
        own = [row for row in waves[m] if row["a"] == action]
        one, other = newton_pass(own, start(mine, share(past))["h"])
        H, c = H + one, c + other
    if not started:
        return None
    return {"H": H, "c": c, "b": np.linalg.solve(H + penalty(P), c)}


def returned(waves, action):
    """Return the function x -> q_a(x) that waves 1 to m give."""
    past = [row for wave in waves for row in wave]
    sums = newton_sums(waves, action) if len(past[0]["x"]) > 1 else None
    constant = share_back(past, action)

    def back(x):
        if sums is None:
            return constant
        return min(max(1 / (1 + math.exp(-float(np.dot(x, sums["b"])))), 0.05), 1.0)

    return back

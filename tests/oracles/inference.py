"""Inference after adaptive waves, literally and one row at a time.

A wave is a list of rows: dicts with x (list, constant first), a, p (list), y (None if missing).
"""

import functools
import math

import numpy as np
from scipy import signal, special, stats


def ridge(past, action, leave_out=None):
    """Return b of an action from all rows of waves 1 to m, but for one row if it is named."""
    P = len(past[0]["x"])
    gram = np.diag([0.001] + [1.0] * (P - 1))
    moment = np.zeros(P)
    for row in past:
        if row["a"] == action and row["y"] is not None and row is not leave_out:
            x = np.array(row["x"])
            gram = gram + np.outer(x, x)
            moment = moment + row["y"] * x
    return np.linalg.solve(gram, moment)


def share_back(past, action):
    """Return q_a, with one prior observation at the overall share."""
    overall = sum(row["y"] is not None for row in past) / len(past)
    mine = [row for row in past if row["a"] == action]
    return (sum(row["y"] is not None for row in mine) + overall) / (len(mine) + 1)


def residual(past, row):
    """Return Y less the prediction of the regression that never saw the row."""
    return row["y"] - float(np.dot(row["x"], ridge(past, row["a"], leave_out=row)))


def scores(past, wave, q=None):
    """Return G_i(a) of each row of the last wave among `past`."""
    K = len(wave[0]["p"])
    whole = [ridge(past, a) for a in range(K)]
    table = []
    for row in wave:
        line = [float(np.dot(row["x"], whole[a])) for a in range(K)]
        if row["y"] is not None:
            a, e = row["a"], residual(past, row)
            back = share_back(past, a) if q is None else q(row)
            line[a] = row["y"] - e + e / (row["p"][a] * back)
        table.append(line)
    return table


def noise(waves):
    """Return the mean of all squared residuals, each wave by its own model."""
    squares = []
    for m in range(1, len(waves) + 1):
        past = [row for wave in waves[:m] for row in wave]
        squares += [residual(past, row) ** 2 for row in waves[m - 1] if row["y"] is not None]
    return sum(squares) / len(squares)


def contrast(kind, line, p, action=None):
    """Return (s_i, cost_i, arms) of one row."""
    V = sum(pa * ga for pa, ga in zip(p, line, strict=True))
    K = len(p)
    if kind == "mean":
        return line[action], 1 / p[action], 1
    if kind == "lift":
        return line[action] - line[0], 1 / p[action] + 1 / p[0], 2
    if kind == "as run":
        return V, 1.0, 1
    if kind == "gain":
        return V - line[action], 1 / p[action], 1
    assert kind == "gain over random"
    return V - sum(line) / K, sum(1 / pa for pa in p) / K**2, 1


def everybody(row):
    return row is not None


def wave_estimate(waves, kind, action=None, keep=everybody, q=None):
    """Return theta, v, v~, C, df and n of the last wave, among rows that are kept."""
    past = [row for wave in waves for row in wave]
    table = scores(past, waves[-1], q)
    kept = [(row, line) for row, line in zip(waves[-1], table, strict=True) if keep(row)]
    made = [contrast(kind, line, row["p"], action) for row, line in kept]
    s = [one[0] for one in made]
    n, arms = len(s), made[0][2]
    theta = sum(s) / n
    squares = sum((one - theta) ** 2 for one in s)
    v = squares / (n - 1) / n
    kurtosis = n * sum((one - theta) ** 4 for one in s) / squares**2
    C = sum(one[1] for one in made) / n
    r = sum(row["y"] is not None for row, _ in kept) / n
    usual = noise(waves) * C / (r * n)
    by_kurtosis = 2 * n / (kurtosis - 1)
    if v <= 1e-20 * usual:
        # Equal scores, as of a gain over random in a uniform wave: the rest is rounding.
        v, by_kurtosis = 0.0, math.inf
    df = max(1, min(by_kurtosis, arms**2 * r * n / C))
    moderated = (df * v + 10 * usual) / (df + 10)
    return {"theta": theta, "v": v, "moderated": moderated, "C": C, "df": df, "n": n}


def planned_costs(sizes, K, h, f, arms):
    """Return D_m of a greedy policy."""
    low = h / K + (1 - h) * f
    high = 1 - (K - 1) * low
    later = arms * ((1 / K) / high + (1 - 1 / K) / low)
    return [arms * K] + [later] * (len(sizes) - 1)


def pooled(waves, kind, action, D, keep=everybody, level=0.95):
    """Return theta, se, df, low, high, Q of a mean or lift over all waves."""
    parts = [wave_estimate(waves[: m + 1], kind, action, keep=keep) for m in range(len(waves))]
    w = [part["n"] / math.sqrt(d * part["C"]) for part, d in zip(parts, D, strict=True)]
    return weighted(parts, w, level)


def by_size(waves, kind, action=None, level=0.95):
    """Return the same with weights n_m/n."""
    parts = [wave_estimate(waves[: m + 1], kind, action) for m in range(len(waves))]
    return weighted(parts, [part["n"] for part in parts], level)


def weighted(parts, w, level):
    total = sum(w)
    theta = sum(one * part["theta"] for one, part in zip(w, parts, strict=True)) / total
    terms = [one**2 * part["moderated"] for one, part in zip(w, parts, strict=True)]
    se = math.sqrt(sum(terms)) / total
    below = sum(term**2 / part["df"] for term, part in zip(terms, parts, strict=True))
    df = sum(terms) ** 2 / below
    half = stats.t.ppf(1 - (1 - level) / 2, df) * se
    Q = sum((part["theta"] - theta) ** 2 / part["moderated"] for part in parts)
    return {"theta": theta, "se": se, "df": df, "low": theta - half, "high": theta + half, "Q": Q}


def next_rule(waves, folds=5):
    """Return the gain of the next rule over control: last wave, cross-fitted by place."""
    last, everything = waves[-1], [row for wave in waves for row in wave]
    s, costs = [], []
    K = len(last[0]["p"])
    models = []
    for fold in range(folds):
        held = [row for place, row in enumerate(last) if place % folds == fold]
        others = [row for row in everything if not any(row is one for one in held)]
        models.append([ridge(others, a) for a in range(K)])
    for place, row in enumerate(last):
        mu = [float(np.dot(row["x"], b)) for b in models[place % folds]]
        pi = max(range(K), key=lambda a: (mu[a], -a))
        value = mu[pi] - mu[0]
        if row["y"] is not None:
            q = share_back(everything, row["a"])
            e = row["y"] - mu[row["a"]]
            value += e / (row["p"][row["a"]] * q) * ((row["a"] == pi) - (row["a"] == 0))
        s.append(value)
        costs.append(1 / row["p"][pi] + 1 / row["p"][0] if pi != 0 else 0.0)
    n, C = len(s), sum(costs) / len(s)
    theta = sum(s) / n
    squares = sum((one - theta) ** 2 for one in s)
    kurtosis = n * sum((one - theta) ** 4 for one in s) / squares**2
    r = sum(row["y"] is not None for row in last) / n
    df = max(1, min(2 * n / (kurtosis - 1), 4 * r * n / C))
    v = squares / (n - 1) / n
    return {
        "theta": theta,
        "moderated": (df * v + 10 * noise(waves) * C / (r * n)) / (df + 10),
        "df": df,
    }


def weighted_least_squares(wave, action):
    """Return b and its HC3 covariance, weighted by 1/p, from one action's outcomes of a wave."""
    rows = [row for row in wave if row["a"] == action and row["y"] is not None]
    P = len(rows[0]["x"])
    gram, moment = np.zeros((P, P)), np.zeros(P)
    for row in rows:
        x, w = np.array(row["x"]), 1 / row["p"][action]
        gram += w * np.outer(x, x)
        moment += w * row["y"] * x
    inverse = np.linalg.inv(gram)
    b = inverse @ moment
    meat = np.zeros((P, P))
    for row in rows:
        x, w = np.array(row["x"]), 1 / row["p"][action]
        e = (row["y"] - x @ b) / (1 - w * x @ inverse @ x)
        meat += w**2 * e**2 * np.outer(x, x)
    return b, inverse @ meat @ inverse, len(rows)


def lift_coefficients(waves, action, D):
    """Return estimates, variances and df of the lift's coefficients."""
    total, gaps, variances, df = 0.0, 0.0, 0.0, 0.0
    for wave, d in zip(waves, D, strict=True):
        counts = [sum(row["a"] == a and row["y"] is not None for row in wave) for a in (action, 0)]
        if min(counts) < len(wave[0]["x"]) + 4:
            continue
        C = sum(1 / row["p"][action] + 1 / row["p"][0] for row in wave) / len(wave)
        w = len(wave) / math.sqrt(d * C)
        own, control = (weighted_least_squares(wave, a) for a in (action, 0))
        total += w
        gaps = gaps + w * (own[0] - control[0])
        variances = variances + w**2 * (np.diag(own[1]) + np.diag(control[1]))
        df += min(counts) / 2
    return gaps / total, variances / total**2, df


def anytime(waves, kind, action, D, alpha=0.05):
    """Return theta and half the width of the normal mixture's interval."""
    parts = [wave_estimate(waves[: m + 1], kind, action) for m in range(len(waves))]
    w = [part["n"] / part["C"] for part in parts]
    V = sum(one**2 * part["moderated"] for one, part in zip(w, parts, strict=True))
    theta = sum(one * part["theta"] for one, part in zip(w, parts, strict=True)) / sum(w)
    r = sum(row["y"] is not None for row in waves[0]) / len(waves[0])
    end = noise(waves[:1]) / r * sum(len(wave) / d for wave, d in zip(waves, D, strict=True))
    rho = end / (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1)
    half = math.sqrt((V + rho) * math.log((V + rho) / (rho * alpha**2)))
    return theta, half / sum(w)


def crossing(bounds, times, draws, drift=0.0):
    """Return how often each of many simulated paths first crosses each bound."""
    path, before, crossed = np.zeros(len(draws)), 0.0, []
    alive = np.ones(len(draws), dtype=bool)
    for bound, time, draw in zip(bounds, times, draws.T, strict=True):
        path = path + math.sqrt(time - before) * draw + drift * (time - before)
        out = alive & (path / math.sqrt(time) >= bound)
        crossed.append(out.mean())
        alive &= ~out
        before = time
    return crossed


def boundaries_on_a_grid(times, spending, cells=2**20):
    """Return boundaries by the masses of a Brownian path in many equal cells.

    Each increment spreads the mass of a cell, as if even within it, over all cells. What is above
    the boundary stops; the boundary is where the mass above it is what the look may spend.
    """
    far = 9 * math.sqrt(times[-1])
    ends = np.linspace(-far, far, cells + 1)
    wide = ends[1] - ends[0]
    mass, found, before = None, [], 0.0
    for time, error in zip(times, spending, strict=True):
        deviation = math.sqrt(time - before)
        if mass is None:
            mass = np.diff(stats.norm.cdf(ends / deviation))
        else:
            steps = min(math.ceil(9 * deviation / wide) + 1, cells)
            z = np.arange(-steps - 1, steps + 2) * wide / deviation
            below = z * stats.norm.cdf(z) + stats.norm.pdf(z)
            mass = signal.fftconvolve(mass, np.diff(below, 2) * deviation / wide, mode="same")
        if error < 1e-13:
            found.append(math.inf)
        else:
            above = np.cumsum(mass[::-1])[::-1]
            cell = np.flatnonzero(above >= error)[-1]
            place = ends[cell + 1] - (error - (above[cell] - mass[cell])) / mass[cell] * wide
            found.append(place / math.sqrt(time))
            mass[cell] *= (place - ends[cell]) / wide
            mass[cell + 1 :] = 0.0
        before = time
    return found


@functools.cache
def outside_curve(loadings):
    """Return bounds and how likely some of several normal statistics exceeds each of them."""
    shared = np.linspace(-9, 9, 6001)
    chances = stats.norm.pdf(shared) * (shared[1] - shared[0])
    bounds, outside = np.linspace(0, 9, 1501), []
    for bound in bounds:
        inside = np.ones_like(shared)
        for loading in loadings:
            rest = math.sqrt(1 - loading**2)
            below, above = (-bound - shared * loading) / rest, (bound - shared * loading) / rest
            inside *= special.ndtr(above) - special.ndtr(below)
        outside.append(float(chances @ (1 - inside)))
    return bounds, outside


def outside_dunnett(bound, loadings, df):
    """Return the same if the error is estimated: the mean over many values of chi-square."""
    bounds, outside = outside_curve(loadings)
    if df == math.inf:
        return float(np.interp(bound, bounds, outside))
    chance = (np.arange(100_000) + 0.5) / 100_000
    scales = np.sqrt(2 * special.gammaincinv(df / 2, chance) / df)
    return float(np.interp(bound * scales, bounds, outside).mean())

"""Inference after adaptive waves, literally and one row at a time.

A wave is a list of rows: dicts with x (list, constant first), a, p (list), y (None if missing).
"""

import functools
import math

import numpy as np
from scipy import signal, special, stats

from tests.oracles.return_model import returned


def ridge(past, action, leave_out=None):
    """Return b of an action from all rows of waves 1 to m, but for one row if it is named."""
    P = len(past[0]["x"])
    used = [
        row for row in past if row["a"] == action and row["y"] is not None and row is not leave_out
    ]
    gram, moment = np.diag([0.001] + [1.0] * (P - 1)), np.zeros(P)
    if used:
        x, y = np.array([row["x"] for row in used]), np.array([row["y"] for row in used])
        gram, moment = gram + x.T @ x, x.T @ y
    return np.linalg.solve(gram, moment)


def residual(past, row):
    """Return Y less the prediction of the regression that never saw the row (no shift)."""
    return row["y"] - float(np.dot(row["x"], ridge(past, row["a"], leave_out=row)))


def remembered(function):
    """Remember what was found for these very waves: row by row takes its time."""
    known = {}

    @functools.wraps(function)
    def found(waves, q=None, shift=True):
        if q is not None:
            return function(waves, q, shift)
        key = (*map(id, waves), shift)
        if key not in known:
            # The waves are kept with it, so that no others get their place in memory.
            known[key] = tuple(waves), function(waves, q, shift)
        return known[key][1]

    return found


@remembered
def scored(waves, q=None, shift=True):
    """Return shift, residual e (None if missing), q_a(x_i) and G_i(a) of each row of the last wave.

    `q` is a function of action and x in place of the return model; `shift=False` leaves out the
    common shift of the wave.
    """
    past, wave = [row for wave in waves for row in wave], waves[-1]
    K = len(wave[0]["p"])
    models = [returned(waves, a) for a in range(K)] if q is None else None
    whole = [ridge(past, a) for a in range(K)]

    def rest(row):
        return row["y"] - float(np.dot(row["x"], whole[row["a"]]))

    E = sum(rest(row) for row in wave if row["y"] is not None)
    N = sum(row["y"] is not None for row in wave)
    table = []
    for row in wave:
        if not shift:
            d = 0.0
        elif row["y"] is None:
            d = E / (N + 1)
        else:
            d = (E - rest(row)) / N
        G = [float(np.dot(row["x"], whole[a])) + d for a in range(K)]
        back = [models[a](row["x"]) if q is None else q(a, row["x"]) for a in range(K)]
        e = None
        if row["y"] is not None:
            a, alone = row["a"], residual(past, row)
            e = alone - d
            G[a] = row["y"] - alone + d + e / (row["p"][a] * back[a])
        table.append({"shift": d, "e": e, "q": back, "G": G})
    return table


def scores(waves, q=None, shift=True):
    """Return G_i(a) of each row of the last wave."""
    return [one["G"] for one in scored(waves, q, shift)]


@remembered
def noise(waves, q=None, shift=True):
    """Return sigma2, kappa and sigma_a^2 by action from waves 1 to m, each by its own model."""
    K = len(waves[0][0]["p"])
    found = [[] for _ in range(K)]
    for m in range(1, len(waves) + 1):
        made = scored(waves[:m], q, shift)
        for row, one in zip(waves[m - 1], made, strict=True):
            if row["y"] is not None:
                found[row["a"]].append(one["e"])
    N = sum(len(mine) for mine in found)
    sigma2 = sum(e**2 for mine in found for e in mine) / N
    kappa = 0.0
    for mine in found:
        s2 = sum(e**2 for e in mine) / len(mine) if mine else 0.0
        kappa += sum(e**4 for e in mine) / s2**2 if s2 > 0 else len(mine)
    kappa /= N
    g = 5 * max(kappa - 1, 0)
    by_action = [
        (sum(e**2 for e in mine) + g * sigma2) / (len(mine) + g) if len(mine) + g else sigma2
        for mine in found
    ]
    return {"sigma2": sigma2, "kappa": kappa, "by_action": by_action}


ARMS = {"mean": 1, "lift": 2, "as run": 1, "gain": 1, "gain over random": 1, "next": 2}


def coefficients(kind, p, action=None, could=None):
    """Return d_i(a) of all actions, and the cost that weights by shares use.

    `could` says which actions the unit could get, all if None; random assignment is among them.
    """
    K = len(p)
    if kind == "mean":
        return [float(a == action) for a in range(K)], 1 / p[action]
    if kind == "lift":
        d = [float(a == action) - float(a == 0) for a in range(K)]
        return d, 1 / p[action] + 1 / p[0]
    if kind == "as run":
        return list(p), 1.0
    if kind == "gain":
        return [settled(p[a] - (a == action)) for a in range(K)], 1 / p[action]
    assert kind == "gain over random"
    could = could or [True] * K
    d = [settled(pa - one / sum(could)) for pa, one in zip(p, could, strict=True)]
    costs = [1 / pa for pa, one in zip(p, could, strict=True) if one]
    return d, sum(costs) / len(costs) ** 2


def settled(d):
    """Return 0 for what is left of equal probabilities by rounding."""
    return 0.0 if abs(d) < 1e-12 else d


def everybody(row):
    return row is not None


def units_of(waves, kind, action=None, keep=everybody, q=None, shift=True):
    """Return d, G, p q and cost of each unit of the last wave that is kept."""
    table = scored(waves, q, shift)
    made = []
    for row, one in zip(waves[-1], table, strict=True):
        if keep(row):
            d, cost = coefficients(kind, row["p"], action, row.get("could"))
            pq = [pa * qa for pa, qa in zip(row["p"], one["q"], strict=True)]
            made.append({"d": d, "G": one["G"], "pq": pq, "cost": cost})
    return made


def quotient_sums(units, sign=0):
    """Return Q1, Q2, Q3 by action of d+ (sign 1), of d- (sign -1) or of both together (sign 0)."""
    K = len(units[0]["d"])
    Q = [[0.0] * K for _ in range(3)]
    for unit in units:
        for a, (one, pq) in enumerate(zip(unit["d"], unit["pq"], strict=True)):
            d = abs(one) if sign == 0 else max(sign * one, 0.0)
            if d != 0:
                Q[0][a] += d
                Q[1][a] += d**2 / pq
                Q[2][a] += d**3 / pq**2
    return Q


def contrast_scores(units):
    return [sum(d * g for d, g in zip(unit["d"], unit["G"], strict=True)) for unit in units]


def design_effect(s, clusters):
    """Return max(variance between clusters / variance as if independent, 1)."""
    n, theta = len(s), sum(s) / len(s)
    totals = {}
    for one, name in zip(s, clusters, strict=True):
        totals[name] = totals.get(name, 0.0) + one - theta
    G = len(totals)
    between = G / (G - 1) * sum(total**2 for total in totals.values()) / n**2
    alone = sum((one - theta) ** 2 for one in s) / (n - 1) / n
    return max(between / alone, 1.0) if alone > 0 else 1.0


def estimate_of(units, arms, rest, clusters=None):
    """Return theta, v, v~, C, Qt, df, u and n of a wave's units; `rest` is the noise.

    `clusters` names the cluster of each unit: v is then that between clusters, their number counts
    in the degrees of freedom, and the usual variance is multiplied by the design effect.
    """
    s, n = contrast_scores(units), len(units)
    theta = sum(s) / n
    terms, effect = [one - theta for one in s], 1.0
    if clusters:
        effect = design_effect(s, clusters)
        totals = dict.fromkeys(clusters, 0.0)
        for one, name in zip(terms, clusters, strict=True):
            totals[name] += one
        terms = list(totals.values())
    G = len(terms)
    squares = sum(one**2 for one in terms)
    v = G / (G - 1) * squares / n**2 if G > 1 else 0.0
    Q2 = quotient_sums(units)[1]
    usual = effect * sum(s2 * one for s2, one in zip(rest["by_action"], Q2, strict=True)) / n**2
    if v <= 1e-20 * usual or squares == 0:
        # Equal scores, as where no outcome differs: the rest is rounding.
        v, by_kurtosis = 0.0, math.inf
    else:
        kurtosis = G * sum(one**4 for one in terms) / squares**2
        by_kurtosis = 2 * G / (kurtosis - 1) if kurtosis > 1 else math.inf
    Qt = sum(Q2) / n
    effective = arms**2 * n / Qt if Qt else math.inf
    capped = effective * (min(1, 2 / (rest["kappa"] - 1)) if rest["kappa"] > 1 else 1)
    df = max(1, min(by_kurtosis, effective))
    u = max(1, min(by_kurtosis, capped))
    moderated = (u * v + 10 * usual) / (u + 10) if u < math.inf else v
    C = sum(unit["cost"] for unit in units) / n
    return {
        "theta": theta, "v": v, "moderated": moderated, "C": C, "Qt": Qt, "effective": effective,
        "df": df, "u": u, "n": n, "effect": effect,
    }  # fmt: skip


def wave_estimate(waves, kind, action=None, keep=everybody, shift=True, clusters=None):
    """Return theta, v, v~ (moderated), C, Qt, effective, df, u and n of the last wave.

    `clusters` is the name of the rows' key that holds a unit's cluster.
    """
    units = units_of(waves, kind, action, keep, shift=shift)
    names = [row[clusters] for row in waves[-1] if keep(row)] if clusters else None
    return estimate_of(units, ARMS[kind], noise(waves, shift=shift), names)


def estimates(waves, kind, action=None, keep=everybody, clusters=None):
    """Return the estimates of every wave, each by the model of the waves up to it."""
    return [
        wave_estimate(waves[: m + 1], kind, action, keep, clusters=clusters)
        for m in range(len(waves))
    ]


def covariance_of_waves(waves, kind, action, w, clusters):
    """Return what clusters that are in several waves add to the variance of a weighted mean."""
    total, W = 0.0, [one / sum(w) for one in w]
    sums = []
    for m in range(len(waves)):
        s = contrast_scores(units_of(waves[: m + 1], kind, action))
        theta, mine = sum(s) / len(s), {}
        for row, one in zip(waves[m], s, strict=True):
            mine[row[clusters]] = mine.get(row[clusters], 0.0) + (one - theta) / len(s)
        sums.append(mine)
    for one in range(len(waves)):
        for other in range(one):
            shared = set(sums[one]) & set(sums[other])
            total += 2 * W[one] * W[other] * sum(sums[one][c] * sums[other][c] for c in shared)
    return max(total, 0.0)


def planned_costs(sizes, K, h, f, arms, uniform=1, thompson=False):
    """Return D_m; the first `uniform` waves are uniform, the others greedy or Thompson."""
    low = h / K + (1 - h) * f
    high = 1 - (K - 1) * low
    later = arms * ((1 / K) / high + (1 - 1 / K) / low)
    if thompson:
        later = math.sqrt(later * arms * K)
    return [arms * K if m < uniform else later for m in range(len(sizes))]


def pooled(waves, kind, action, D, keep=everybody, level=0.95, clusters=None):
    """Return theta, se, df, low, high, Q by shares: w = n/sqrt(D C) = sqrt(share n/C)."""
    parts = estimates(waves, kind, action, keep, clusters)
    w = [part["n"] / math.sqrt(d * part["C"]) for part, d in zip(parts, D, strict=True)]
    return weighted(parts, w, level)


def by_size(waves, kind, action=None, level=0.95, keep=everybody, last=None, clusters=None):
    """Return the same with weights n_m/n; over the last few waves only if `last` is given."""
    parts = estimates(waves, kind, action, keep, clusters)[-last if last else 0 :]
    return weighted(parts, [part["n"] for part in parts], level)


def weighted(parts, w, level=0.95):
    """Return theta, se, df, low, high of waves, and Q around its own centre with its p-value."""
    total = sum(w)
    theta = sum(one * part["theta"] for one, part in zip(w, parts, strict=True)) / total
    terms = [one**2 * part["moderated"] for one, part in zip(w, parts, strict=True)]
    se = math.sqrt(sum(terms)) / total
    below = sum(term**2 / part["df"] for term, part in zip(terms, parts, strict=True))
    df = sum(terms) ** 2 / below if below else math.inf
    half = float(stats.t.ppf(1 - (1 - level) / 2, df)) * se
    return {
        "theta": theta, "se": se, "df": df, "low": theta - half, "high": theta + half,
        **change(parts),
    }  # fmt: skip


def change(parts):
    """Return Q around the inverse-variance centre, the centre, and p by chi-square M - 1."""
    if len(parts) == 1 or any(part["moderated"] == 0 for part in parts):
        return {"Q": 0.0 if len(parts) == 1 else math.nan, "centre": math.nan, "p_change": math.nan}
    w = [1 / part["moderated"] for part in parts]
    centre = sum(one * part["theta"] for one, part in zip(w, parts, strict=True)) / sum(w)
    Q = sum(one * (part["theta"] - centre) ** 2 for one, part in zip(w, parts, strict=True))
    return {"Q": Q, "centre": centre, "p_change": float(stats.chi2.sf(Q, len(parts) - 1))}


def one_sided(answer):
    """Return the p-value of the t-test of "at most 0"."""
    return float(stats.t.sf(answer["theta"] / answer["se"], answer["df"]))


def level_change(waves, clusters=None):
    """Return lambda, F, d and p of the test that all actions' means moved alike between waves.

    `clusters` is the name of the rows' key that holds a unit's cluster.
    """
    M, K = len(waves), len(waves[0][0]["p"])
    cells = [(a, m) for m in range(M) for a in range(K)]
    made = {(a, m): wave_estimate(waves[: m + 1], "mean", a, clusters=clusters) for a, m in cells}
    actions = [[float(a == b) for b in range(K)] for a, _ in cells]
    later = [[float(m == j) for j in range(1, M)] for _, m in cells]
    design = np.hstack([actions, later])
    o = np.diag([made[cell]["n"] / made[cell]["C"] for cell in cells])
    H = np.linalg.solve(design.T @ o @ design, design.T @ o)[K:]
    V = np.zeros((len(cells), len(cells)))
    for m in range(M):
        table, n = scores(waves[: m + 1]), len(waves[m])
        means = [sum(line[a] for line in table) / n for a in range(K)]
        totals = {}
        for i, (line, row) in enumerate(zip(table, waves[m], strict=True)):
            own = totals.setdefault(row[clusters] if clusters else i, [0.0] * K)
            for a in range(K):
                own[a] += line[a] - means[a]
        G = len(totals)
        for a in range(K):
            for b in range(K):
                product = sum(one[a] * one[b] for one in totals.values())
                V[m * K + a, m * K + b] = product / n**2 * G / (G - 1) if G > 1 else 0.0
            V[m * K + a, m * K + a] = made[a, m]["moderated"]
    shifts = H @ np.array([made[cell]["theta"] for cell in cells])
    F = float(shifts @ np.linalg.solve(H @ V @ H.T, shifts)) / (M - 1)
    d = math.inf
    for line in H:
        c = [line[i] ** 2 * made[cell]["moderated"] for i, cell in enumerate(cells)]
        below = sum(c[i] ** 2 / (made[cell]["df"] + 10) for i, cell in enumerate(cells))
        d = min(d, sum(c) ** 2 / below)
    return {"shifts": shifts.tolist(), "F": F, "df": float(d), "p": float(stats.f.sf(F, M - 1, d))}


def cost_of(waves, kind, action, costs, w, keep=everybody):
    """Return what is subtracted from the gross answer: sum_m W_m sum_a c_a Q1_a/n_m, d+ less d-."""
    amount = 0.0
    for m, one in enumerate(w):
        units = units_of(waves[: m + 1], kind, action, keep)
        for unit in units:
            net = sum(d * c for d, c in zip(unit["d"], costs, strict=True))
            amount += one / sum(w) * net / len(units)
    return amount


def look_tails(looks, alpha=0.05):
    """Return the one-sided tails of size-weighted intervals at planned looks."""
    if looks == 1:
        return [alpha / 2]
    return [0.2 * alpha / 2 / (looks - 1)] * (looks - 1) + [0.8 * alpha / 2]


def within_waves(waves):
    """Return b of each action by one regression with a dummy for each wave.

    Penalties are those of `ridge`, and 0 on dummies; constants get the mean level of outcomes.
    """
    K, P = len(waves[0][0]["p"]), len(waves[0][0]["x"])
    rows = [(row, m) for m, wave in enumerate(waves) for row in wave if row["y"] is not None]
    design, y = np.zeros((len(rows), K * P + len(waves))), np.zeros(len(rows))
    for place, (row, m) in enumerate(rows):
        design[place, row["a"] * P : (row["a"] + 1) * P] = row["x"]
        design[place, K * P + m] = 1.0
        y[place] = row["y"]
    weights = np.array(([0.001] + [1.0] * (P - 1)) * K + [0.0] * len(waves))
    # The penalty as further rows, with outcomes of 0.
    design = np.concatenate([design, np.diag(np.sqrt(weights))])
    found = np.linalg.lstsq(design, np.append(y, np.zeros(len(weights))), rcond=1e-14)[0]
    level = np.mean([found[K * P + m] for _, m in rows])
    return [found[a * P : (a + 1) * P] + level * np.eye(P)[0] for a in range(K)]


def next_units(waves, folds=5, costs=None, less=False):
    """Return units of the last wave as `units_of` does, each with its fold, for the next rule.

    An action without outcomes is never given. `costs` of actions are subtracted before the choice;
    with `less` the lowest is chosen.
    """
    last, everything = waves[-1], [row for wave in waves for row in wave]
    K = len(last[0]["p"])
    q = [returned(waves, a) for a in range(K)]
    costs = costs or [0.0] * K
    models, rules, shifts, seen = [], [], [], []
    for fold in range(folds):
        held = [row for place, row in enumerate(last) if place % folds == fold]
        others = [row for row in everything if not any(row is one for one in held)]
        seen.append({row["a"] for row in others if row["y"] is not None})
        b = [ridge(others, a) for a in range(K)]
        kept = [row for place, row in enumerate(last) if place % folds != fold]
        rules.append(within_waves([*waves[:-1], kept]))
        rest = [
            row["y"] - float(np.dot(row["x"], b[row["a"]]))
            for place, row in enumerate(last)
            if place % folds != fold and row["y"] is not None
        ]
        models.append(b)
        shifts.append(sum(rest) / (len(rest) + 1))
    units = []
    for place, row in enumerate(last):
        fold = place % folds
        mu = [float(np.dot(row["x"], b)) for b in models[fold]]
        net = [
            float(np.dot(row["x"], b)) - cost for b, cost in zip(rules[fold], costs, strict=True)
        ]
        pi = max(sorted(seen[fold]), key=lambda a, net=net: (-net[a] if less else net[a], -a))
        G = [one + shifts[fold] for one in mu]
        pq = [row["p"][a] * q[a](row["x"]) for a in range(K)]
        if row["y"] is not None:
            a = row["a"]
            G[a] += (row["y"] - mu[a] - shifts[fold]) / pq[a]
        d = [float(a == pi) - float(a == 0) for a in range(K)]
        units.append({"d": d, "G": G, "pq": pq, "cost": 0.0, "fold": fold, "pi": pi})
    return units


def next_rule(waves, folds=5, costs=None, less=False):
    """Return the gain of the next rule over control: last wave, cross-fitted by place, t form."""
    return estimate_of(next_units(waves, folds, costs, less), ARMS["next"], noise(waves))


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
    parts = estimates(waves, kind, action)
    w = [part["n"] / part["C"] for part in parts]
    V = sum(one**2 * part["moderated"] for one, part in zip(w, parts, strict=True))
    theta = sum(one * part["theta"] for one, part in zip(w, parts, strict=True)) / sum(w)
    r = sum(row["y"] is not None for row in waves[0]) / len(waves[0])
    end = (
        noise(waves[:1])["sigma2"]
        / r
        * sum(len(wave) / d for wave, d in zip(waves, D, strict=True))
    )
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

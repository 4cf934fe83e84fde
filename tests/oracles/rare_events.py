"""Intervals for rare events and skewed amounts, literally and one unit at a time.

A contrast is a sum over units of d_i(a) G_i(a); its part "+" has d+ = max(d, 0), its part "-" has
d- = max(-d, 0). Units are those of `inference.units_of` (or `next_units`): dicts with d, G and pq.
"""

import math

from scipy import stats

from tests.oracles.inference import (
    contrast_scores,
    design_effect,
    estimates,
    everybody,
    next_units,
    quotient_sums,
    units_of,
)

TWO_PARTS = {"lift", "gain", "gain over random", "next"}
#: An action's model rests on N outcomes, and adds 2/N to the designed variance.
FITTED = 2.0
FACTORS = {"gain": 1.1, "gain over random": 1.1, "next": 1.3}


def outcomes(waves):
    return [row["y"] for wave in waves for row in wave if row["y"] is not None]


def form(waves):
    """Return binary, mirrored, rare (this form is used) and few (the rule of events is applied)."""
    y = outcomes(waves)
    binary = all(one in (0, 1) for one in y)
    first = next((outcomes([wave]) for wave in waves if outcomes([wave])), [])
    mirrored = binary and sum(one == 1 for one in first) > sum(one == 0 for one in first)
    usual = sum(one == (1 if mirrored else 0) for one in y)
    half = 2 * usual >= len(y) > 0
    return {
        "binary": binary, "mirrored": mirrored, "rare": half and min(y) >= 0, "few": half,
    }  # fmt: skip


def totals(rows, K, mirrored=False):
    """Return N, Y1, Y2, Y3 and events by action, of 1 - y if mirrored."""
    made = {name: [0.0] * K for name in ("N", "Y1", "Y2", "Y3", "events")}
    for row in rows:
        if row["y"] is not None:
            y, a = (1 - row["y"] if mirrored else row["y"]), row["a"]
            made["N"][a] += 1
            made["events"][a] += y != 0
            for power in (1, 2, 3):
                made[f"Y{power}"][a] += y**power
    return made


def part_of(waves, sign, W, sums, F=1.0, mirrored=False, effects=None):
    """Return B, v, k3, A, T, k, w and more of one part; `waves` are lists of units."""
    K = len(sums["N"])
    W = [one / sum(W) for one in W]
    effects = effects or [1.0] * len(waves)
    B = v = k3 = 0.0
    A, H, J = [0.0] * K, [0.0] * K, [0.0] * K
    for units, one, effect in zip(waves, W, effects, strict=True):
        s = []
        for unit in units:
            G = [1 - g for g in unit["G"]] if mirrored else unit["G"]
            s.append(sum(max(sign * d, 0.0) * g for d, g in zip(unit["d"], G, strict=True)))
        n = len(s)
        theta = sum(s) / n
        v_m = sum((x - theta) ** 2 for x in s) / ((n - 1) * n) if n > 1 else 0.0
        c_m = sum((x - theta) ** 3 for x in s)
        B += one * theta
        v += one**2 * v_m * effect
        k3 += one**3 * c_m * effect**2 / n**3
        Q1, Q2, Q3 = quotient_sums(units, sign)
        for a in range(K):
            A[a] += one * Q1[a] / n
            H[a] += one**2 * Q2[a] * effect / n**2
            J[a] += one**3 * Q3[a] * effect**2 / n**3
    if sum(A) == 0:
        return {"A": 0.0, "B": 0.0}
    r1, r2 = sum(sums["Y2"]) / sum(sums["Y1"]), sum(sums["Y3"]) / sum(sums["Y2"])
    ybar = sum(sums["Y1"]) / sum(sums["N"])
    m = [(y + ybar) / (n + 1) for y, n in zip(sums["Y1"], sums["N"], strict=True)]
    T = sum(A) * r1
    Am, Hm, Jm = (sum(x * y for x, y in zip(one, m, strict=True)) for one in (A, H, J))
    fitted = sum(x * y * (1 + FITTED / max(n, 1)) for x, y, n in zip(H, m, sums["N"], strict=True))
    k_d, w_d = r1 * fitted / Am, r2 * Jm / Hm
    E = sum(A) ** 2 / sum(H) * sum(sums["events"]) / sum(sums["N"])
    k, w, k_o = k_d, w_d, None
    if 0 < B < T and v > 0:
        k_o, w_o, E_o = v / (B * (1 - B / T)), k3 / v, B**2 / v
        g = min(E, E_o) / (min(E, E_o) + 20)
        k_h, w_h = g * k_o + (1 - g) * k_d, g * w_o + (1 - g) * w_d
        if k_h > k_d:
            k, w = k_h, w_h
    given = sum(e for e, one in zip(sums["events"], A, strict=True) if one > 0)
    return {
        "A": sum(A), "B": B, "v": v, "k3": k3, "T": T, "k_design": k_d, "k_own": k_o, "k": F * k,
        "w": w, "E": E, "r1": r1, "r2": r2, "G2": sum(sums["Y3"]) ** 2 / sum(sums["Y2"]) ** 3,
        "s": given / sum(sums["events"]),
    }  # fmt: skip


def part_limits(part, z, amounts=False, power=2):
    """Return L and U of a part; `power` of s is 2 for one part and 4 for two.

    Far out the term of skewness outweighs the others. There a limit stays where it was farthest
    from the estimate: it never comes back as z grows.
    """
    if part["A"] == 0:
        return 0.0, 0.0
    ends = [min(z, turn(part, amounts, power, side)) for side in (0, 1)]
    return tuple(plain_limits(part, end, amounts, power)[side] for side, end in enumerate(ends))


def turn(part, amounts, power, side, far=64.0, step=0.05):
    """Return the z at which the lower (side 0) or upper limit is farthest from the estimate."""
    key = ("turn", amounts, power, side)
    if key not in part:
        part[key] = far

        def away(z):
            return (1 if side else -1) * plain_limits(part, z, amounts, power)[side]

        steps = [step * i for i in range(round(far / step) + 1)]
        first = next(
            (i for i in range(len(steps) - 1) if away(steps[i + 1]) < away(steps[i])), None
        )
        if first is not None:
            low, high = steps[max(first - 1, 0)], steps[first + 1]
            for _ in range(100):
                one, two = low + (high - low) / 3, high - (high - low) / 3
                low, high = (one, high) if away(one) < away(two) else (low, two)
            part[key] = (low + high) / 2
    return part[key]


def plain_limits(part, z, amounts=False, power=2):
    """Return L and U by the formula alone."""
    k, w, T = part["k"], part["w"], part["T"]
    B0 = min(max(part["B"], 0.0), T * (1 - 1e-9))
    f = max(1 - B0 / T, 1e-6)
    half = z * math.sqrt(k * B0 * f + k**2 * z**2 / 4)
    edge = w * (z**2 - 1) / 6
    L = (B0 + k * z**2 / 2 - half) / (1 + k * z**2 / T) - edge
    U = (B0 + k * z**2 / 2 + half) / (1 + k * z**2 / T) - edge
    if amounts:
        h, more = part["s"] ** power, 20 * part["G2"]
        lam = k * (1 + h * (part["r2"] / part["r1"] * (1 + more) - 1))
        wu = w * (1 + h * more)
        wide = z * math.sqrt(k * B0 * f + lam**2 * z**2 / 4)
        U = max(U, B0 + lam * z**2 / 2 + wide - wu * (z**2 - 1) / 6)
    return L, U


def mover(plus, minus):
    """Return low and high of a difference; each part is (B, L, U)."""
    (B1, L1, U1), (B2, L2, U2) = plus, minus
    low = B1 - B2 - math.hypot(max(B1 - L1, 0.0), max(U2 - B2, 0.0))
    high = B1 - B2 + math.hypot(max(U1 - B1, 0.0), max(B2 - L2, 0.0))
    return low, high


def contrast_of(waves, W, sums, kind, binary, mirrored=False, effects=None):
    """Return a contrast: its parts with what their limits need; None if nothing is an event."""
    if sum(sums["events"]) == 0:
        return None
    F = FACTORS.get(kind, 1.0)
    signs = (1, -1) if kind in TWO_PARTS else (1,)
    parts = [part_of(waves, sign, W, sums, F, mirrored, effects) for sign in signs]
    return {"parts": parts, "amounts": not binary, "mirrored": mirrored}


def estimate(contrast):
    parts = contrast["parts"]
    inner = parts[0]["B"] - (parts[1]["B"] if len(parts) == 2 else 0.0)
    whole = parts[0]["A"] - (parts[1]["A"] if len(parts) == 2 else 0.0)
    return whole - inner if contrast["mirrored"] else inner


def limits(contrast, z):
    """Return low and high at any z."""
    parts = contrast["parts"]
    power = 2 * len(parts)
    ends = [part_limits(part, z, contrast["amounts"], power) for part in parts]
    if len(parts) == 1:
        whole, low, high = parts[0]["A"], max(ends[0][0], 0.0), ends[0][1]
    else:
        whole = parts[0]["A"] - parts[1]["A"]
        low, high = mover(*((part["B"], *end) for part, end in zip(parts, ends, strict=True)))
    return (whole - high, whole - low) if contrast["mirrored"] else (low, high)


def statistic(contrast, t=0.0, far=40.0, step=0.1):
    """Return the smallest z >= 0 with t inside the limits: the first of a grid, then bisection."""

    def inside(z):
        low, high = limits(contrast, z)
        return low <= t <= high

    if inside(0.0):
        return 0.0
    z = step
    while not inside(z):
        z += step
        if z > far:
            return math.inf
    outer, inner = z - step, z
    for _ in range(60):
        middle = (outer + inner) / 2
        outer, inner = (outer, middle) if inside(middle) else (middle, inner)
    return inner


def p_value(contrast, t=0.0):
    return 2 * float(stats.norm.sf(statistic(contrast, t)))


def contrast(
    waves, kind, action=None, W=None, keep=everybody, clusters=None, shift=True, own=True, more=1.0
):
    """Return the contrast of a campaign, by size if no W; limits, estimate, statistic read it.

    `clusters` is the name of the rows' key that holds a unit's cluster; `more` multiplies all
    design effects. With `own=False` the events of a segment are those of the whole campaign.
    """
    how = form(waves)
    by_wave = [units_of(waves[: m + 1], kind, action, keep, shift=shift) for m in range(len(waves))]
    kept = [[row for row in wave if keep(row)] for wave in waves]
    effects = None
    if clusters:
        effects = [
            more * design_effect(contrast_scores(units), [row[clusters] for row in rows])
            for units, rows in zip(by_wave, kept, strict=True)
        ]
    counted = kept if own else waves
    sums = totals([row for rows in counted for row in rows], len(waves[0][0]["p"]), how["mirrored"])
    W = W or [len(units) for units in by_wave]
    return contrast_of(by_wave, W, sums, kind, how["binary"], how["mirrored"], effects)


def weights_by_shares(waves, kind, action, D, keep=everybody):
    """Return n/sqrt(D C) of every wave, which is sqrt(share n/C) times a constant."""
    parts = estimates(waves, kind, action, keep)
    return [part["n"] / math.sqrt(d * part["C"]) for part, d in zip(parts, D, strict=True)]


def next_contrast(waves, folds=5, costs=None, less=False):
    """Return the next rule's contrast: folds of the last wave are the waves."""
    how, units = form(waves), next_units(waves, folds, costs, less)
    by_fold = [[unit for unit in units if unit["fold"] == fold] for fold in range(folds)]
    rows = [row for wave in waves for row in wave]
    sums = totals(rows, len(rows[0]["p"]), how["mirrored"])
    W = [len(fold) for fold in by_fold]
    return contrast_of(by_fold, W, sums, "next", how["binary"], how["mirrored"])


def planned_units(kind, sizes, K, h, f, uniform=1, thompson=False):
    """Return the planned effective units of an answer; the first `uniform` waves are uniform."""
    low = h / K + (1 - h) * f
    high = 1 - (K - 1) * low
    D = (1 / K) / high + (1 - 1 / K) / low
    g = (1 / K) * (1 - high) ** 2 / high + (1 - 1 / K) * (1 - low) ** 2 / low
    first = (1 - 1 / K) ** 2 * K
    if thompson:
        D, g, low = math.sqrt(K * D), math.sqrt(first * g), math.sqrt(low / K)
    N, M = sum(sizes), len(sizes)
    if kind in ("mean", "lift"):
        return sum(n / (K if m < uniform else D) for m, n in enumerate(sizes))
    if kind == "as run":
        return N
    if kind in ("gain", "gain over random"):
        below = sum(n * (first if m < uniform else g) for m, n in enumerate(sizes))
        return (1 - 1 / K) ** 2 * N**2 / below
    assert kind == "next"
    return (1 - 1 / K) * sizes[-1] * (1 / K if uniform >= M else low)


def rule_of_events(waves, kind, K, h, f, uniform=1, thompson=False, keep=everybody, own=True):
    """Return expected and needed events, and whether the interval is printed.

    With `own=False` the rate and the share back of a segment are those of the whole campaign.
    """
    how = form(waves)
    kept = [[row for row in wave if keep(row)] for wave in waves]
    counted = kept if own else waves
    sizes, y = [len(wave) for wave in kept], outcomes(counted)
    r = len(y) / sum(len(wave) for wave in counted)
    events = sum(one != (1 if how["mirrored"] else 0) for one in y)
    planned = planned_units(kind, sizes, K, h, f, uniform, thompson)
    expected = planned * r * events / len(y) if y else 0.0
    needed = 5 if how["binary"] else 20
    return {
        "expected": expected, "needed": needed,
        "printed": not how["few"] or expected >= needed,
    }  # fmt: skip

"""Multiple comparisons: Holm's method, and Dunnett's intervals against one control."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.boundaries import gauss_legendre
from seqbatch.inference.contrasts import Lift, Mean
from seqbatch.inference.estimates import estimate_wave, pool
from seqbatch.inference.intervals import Interval, quantile
from seqbatch.inference.summary import WaveSummary

# ----------------------------------------------------------------------
# Several questions at once, by Holm.


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm-adjusted p-values: rejecting those below alpha keeps the overall error at alpha.

    Parameters
    ----------
    p_values
        One per hypothesis.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.array([arguments.number("p_values", one, at_least=0, at_most=1) for one in p_values])
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(steps)
    return tuple(adjusted.tolist())


# ----------------------------------------------------------------------
# Dunnett's intervals for several actions against one control, which cover jointly.


#: Quadrature nodes for control's component and for the estimated error.
NODES, SCALES = 64, 24


def dunnett_critical(
    loadings: Sequence[float], *, level: float = 0.95, df: float = inf, two_sided: bool = True
) -> float:
    """Return c with P(all |t_a| <= c) = level, if t_a and t_b have correlation l_a l_b.

    Comparisons with one control have this structure: they are independent given the control's
    component. If all actions have as many units as control, every loading is sqrt(1/2).

    Parameters
    ----------
    loadings
        l_a of each comparison, below 1.
    level
        The probability that no statistic exceeds c.
    df
        The degrees of freedom of the common variance.
    two_sided
        Whether both sides count.

    Examples
    --------
    >>> [round(dunnett_critical([0.5**0.5] * count), 2) for count in (1, 2, 3, 4)]
    [1.96, 2.21, 2.35, 2.44]
    """
    from scipy.optimize import brentq

    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    if not loadings or not all(0 <= one < 1 for one in loadings):
        raise InvalidArgumentError("loadings", "one or more numbers from 0 to below 1", loadings)
    parts = np.array(loadings, dtype=np.float64)

    scales = _scales(df)

    def excess(bound: float) -> float:
        return _inside(bound, parts, scales, two_sided) - level

    # The solution lies between that of a single comparison and Bonferroni's.
    tail = (1 - level) / (2 if two_sided else 1)
    low, high = quantile(tail, df), quantile(tail / len(parts), df)
    return float(brentq(excess, low - 0.01, high + 0.01, xtol=1e-8))


def _inside(
    bound: float, loadings: Floats, distribution: tuple[Floats, Floats], two_sided: bool
) -> float:
    """Return the probability that no statistic exceeds the bound."""
    from scipy.special import ndtr

    scales, chances = distribution
    nodes, weights = gauss_legendre(NODES)
    shared, density = (
        8.5 * nodes,
        8.5 * weights * np.exp(-((8.5 * nodes) ** 2) / 2) / sqrt(2 * np.pi),
    )
    rest = np.sqrt(1 - loadings**2)
    # Axes: the scale of the estimated error, the control's component, the comparisons.
    high = (bound * scales[:, None, None] - shared[:, None] * loadings) / rest
    inside = ndtr(high)
    if two_sided:
        # By symmetry, P(Z < -c) given the control's component is P(Z > c) given its negative.
        inside = inside + inside[:, ::-1] - 1
    return float(chances @ (inside.prod(axis=2) @ density))


def _scales(df: float) -> tuple[Floats, Floats]:
    """Return nodes for sqrt(chi-square/df), and weights by its density."""
    from scipy.special import chdtri

    if df > 1e6:
        return np.ones(1), np.ones(1)
    nodes, weights = gauss_legendre(SCALES)
    low, high = (float(np.sqrt(chdtri(df, tail) / df)) for tail in (1 - 1e-11, 1e-11))
    scales = low + (nodes + 1) * (high - low) / 2
    logs = (df - 1) * np.log(scales) - df * scales**2 / 2
    chances = weights * np.exp(logs - logs.max())
    return scales, chances / chances.sum()


def simultaneous_lifts(
    summaries: Sequence[WaveSummary], shares: Sequence[float], *, level: float = 0.95
) -> tuple[Interval, ...]:
    """Return the lifts of all actions over control, with intervals that cover jointly.

    The correlation of the lifts follows from the logged probabilities: control's part of the cost,
    averaged over waves by their shares. Unequal waves and degrees of freedom make this an
    approximation, which uses the lowest degrees of freedom.

    Parameters
    ----------
    summaries
        The waves.
    shares
        The planned share of each wave.
    level
        The joint coverage.
    """
    actions = range(1, len(summaries[0].evidence.assigned))
    lifts = [pool(summaries, Lift(action), shares, level=level) for action in actions]
    if not all(lift.known for lift in lifts):
        return tuple(lifts)
    loadings = [_loading(summaries, shares, action) for action in actions]
    df = min(lift.df for lift in lifts)
    bound = dunnett_critical(loadings, level=level, df=df)
    note = f"Covers jointly with the other {len(lifts) - 1} (Dunnett)."
    return tuple(
        replace(
            lift,
            low=lift.estimate - bound * lift.error,
            high=lift.estimate + bound * lift.error,
            note=f"{lift.note} {note}".strip(),
        )
        for lift in lifts
    )


def _loading(summaries: Sequence[WaveSummary], shares: Sequence[float], action: int) -> float:
    """Return the square root of control's part of a lift's cost, averaged over waves."""
    total = weight = 0.0
    for summary, share in zip(summaries, shares, strict=False):
        control, own = (estimate_wave(summary, Mean(one)) for one in (0, action))
        if control is not None and own is not None:
            total += share * control.cost / (control.cost + own.cost)
            weight += share
    return sqrt(total / weight)

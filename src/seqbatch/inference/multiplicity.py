"""Multiple comparisons: Holm's method, and Dunnett's intervals against one control."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Lift, Mean
from seqbatch.inference.estimates import estimate_wave, pool_by_size
from seqbatch.inference.intervals import Estimated, Interval, quantile, student_tail
from seqbatch.inference.stopping_boundaries import gauss_legendre, legendre_coefficients
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


#: Beyond this, the normal distribution is negligible.
FAR = 9.0
#: Gauss-Legendre nodes per panel, and panels for the distribution of the estimated error.
NODES, SCALES = 20, 16
#: With more degrees of freedom, the error counts as known.
KNOWN = 1e6


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
        The degrees of freedom of the common variance, at least 1.
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
    if not df >= 1:
        raise InvalidArgumentError("df", "a number of at least 1, or infinity", repr(df))
    error = 1 - level
    tail = error / (2 if two_sided else 1)
    low, high = quantile(tail, df), quantile(tail / len(loadings), df)
    if len(loadings) == 1:
        return low
    # The solution lies between that of a single comparison and Bonferroni's.
    room = 1e-3 * (1 + abs(low))
    asked = [c * s for c in (low - room, high + room) for s in _scales(df)]
    outside = Exceedance.of(loadings, two_sided=two_sided, ends=(min(asked), max(asked)))
    return float(
        brentq(lambda c: outside.student(c, df) - error, low - room, high + room, xtol=1e-8)
    )


@dataclass(frozen=True, eq=False)
class Exceedance:
    """The probability that the largest of several statistics exceeds a bound.

    It is computed once for standard normal statistics, by panels from -FAR to FAR, and integrated
    over the distribution of the estimated error for every bound and df.

    Parameters
    ----------
    coefficients
        Legendre coefficients of the probability, one column per panel of width 1.
    """

    coefficients: Floats

    @classmethod
    def of(
        cls,
        loadings: Sequence[float],
        *,
        two_sided: bool,
        ends: tuple[float, float] = (-FAR, FAR),
    ) -> "Exceedance":
        """Return the probabilities for comparisons with these loadings, and bounds between ends."""
        nodes, _ = gauss_legendre(NODES)
        parts = np.array(loadings, dtype=np.float64)
        panels = np.arange(-FAR, FAR)
        chances = np.zeros((len(panels), NODES))
        for place in np.flatnonzero((panels + 1 >= ends[0]) & (panels <= ends[1])):
            bounds = panels[place] + (nodes + 1) / 2
            chances[place] = [_exceeding(bound, parts, two_sided) for bound in bounds.tolist()]
        return cls(legendre_coefficients(chances))

    def normal(self, bounds: Floats) -> Floats:
        """Return the probabilities if the error is known."""
        panel = np.clip(np.floor(bounds + FAR).astype(np.int64), 0, 2 * int(FAR) - 1)
        inside = np.clip(2 * (bounds + FAR - panel) - 1, -1, 1)
        found: Floats = np.asarray(
            np.polynomial.legendre.legval(inside, self.coefficients[:, panel], tensor=False),
            dtype=np.float64,
        )
        return found

    def student(self, bound: float, df: float) -> float:
        """Return the probability if the error is estimated with these degrees of freedom."""
        from scipy.special import gammaincc, gammaln

        if df > KNOWN:
            return float(self.normal(np.array([bound]))[0])
        low, high = _scales(df)
        # Only s up to here matters: beyond it the probability is 0, or 1 if the bound is negative.
        last = min(high, max(FAR / max(abs(bound), 1e-300), low))
        nodes, weights = gauss_legendre(NODES)
        half = (last - low) / SCALES / 2
        s = (low + 2 * half * np.arange(SCALES)[:, None] + half * (nodes + 1)).ravel()
        log_density = (
            log(2) + df / 2 * log(df / 2) - gammaln(df / 2) + (df - 1) * np.log(s) - df * s**2 / 2
        )
        density = np.exp(log_density) * np.tile(weights * half, SCALES)
        beyond = float(gammaincc(df / 2, df * last**2 / 2)) if bound < 0 else 0.0
        return float(density @ self.normal(bound * s)) + beyond


def _scales(df: float) -> tuple[float, float]:
    """Return the range of the estimated error over the true one, s = sqrt(chi-square/df)."""
    from scipy.special import gammainccinv, gammaincinv

    if df > KNOWN:
        return 1.0, 1.0
    low, high = (sqrt(2 * inverse(df / 2, 1e-14) / df) for inverse in (gammaincinv, gammainccinv))
    return low, high


def _exceeding(bound: float, loadings: Floats, two_sided: bool) -> float:
    """Return the probability that some statistic exceeds the bound, if the error is known."""
    from scipy.special import ndtr

    if two_sided and bound <= 0:
        return 1.0
    rest = np.sqrt(1 - loadings**2)
    # Given control's component, a comparison is decided except within a few widths of a centre.
    scale = np.maximum(loadings, 1e-3)
    widths, centres = rest / scale, bound / scale
    near = [sign * centres + step * widths for sign in (-1, 1) for step in (-6, -2, 2, 6)]
    cuts = np.concatenate([np.arange(-FAR, FAR + 1, 2), *near])
    even = np.linspace(-FAR, FAR, ceil(FAR / min(1.0, widths.min())) + 1)
    ends = np.unique(np.clip(cuts, -FAR, FAR)) if len(cuts) < len(even) else even
    nodes, weights = gauss_legendre(NODES)
    half = np.diff(ends) / 2
    shared = (ends[:-1, None] + half[:, None] * (nodes + 1)).ravel()
    chances = (half[:, None] * weights).ravel() * np.exp(-(shared**2) / 2) / sqrt(2 * np.pi)
    inside = ndtr((bound - shared[:, None] * loadings) / rest)
    if two_sided:
        inside = inside - ndtr((-bound - shared[:, None] * loadings) / rest)
    return float(chances @ (1 - inside.prod(axis=1)))


def simultaneous_lifts(
    summaries: Sequence[WaveSummary], *, level: float = 0.95, planned: float | None = None
) -> tuple[Interval, ...]:
    """Return the lifts of all actions over control, by size, with intervals that cover jointly.

    The correlation of the lifts follows from the logged probabilities: control's part of the cost,
    averaged over waves. Unequal waves and degrees of freedom make this an approximation, which uses
    the lowest degrees of freedom.

    Parameters
    ----------
    summaries
        The waves.
    level
        The joint coverage.
    planned
        The planned effective units of a lift; see
        :func:`~seqbatch.inference.estimates.pool_by_size`.
    """
    actions = range(1, len(summaries[0].evidence.zeros))
    lifts = [pool_by_size(summaries, Lift(a), level=level, planned=planned) for a in actions]
    known = [lift for lift in lifts if isinstance(lift, Estimated)]
    if len(known) < len(lifts):
        return tuple(lifts)
    bound = dunnett_critical(
        control_loadings(summaries),
        level=level,
        df=min(lift.df for lift in known),
    )
    note = f"Covers jointly with the other {len(lifts) - 1} (Dunnett)."
    made = []
    for lift in known:
        # The bound belongs to the lowest degrees of freedom; each lift has the tail of that bound.
        low, high = lift.limits(student_tail(bound, lift.df))
        text = f"{lift.note} {note}".strip()
        made.append(replace(lift, low=low, high=high, note=text))
    return tuple(made)


def control_loadings(summaries: Sequence[WaveSummary]) -> tuple[float, ...]:
    """Return l_a of each lift: the correlation of the lifts of two actions is l_a l_b."""
    return tuple(_loading(summaries, a) for a in range(1, len(summaries[0].evidence.zeros)))


def _loading(summaries: Sequence[WaveSummary], action: int) -> float:
    """Return the square root of control's part of a lift's variance, over waves by size."""
    own = total = 0.0
    for summary in summaries:
        control, other = (estimate_wave(summary, Mean(one)) for one in (0, action))
        if control is not None and other is not None:
            own += control.units * control.cost
            total += control.units * (control.cost + other.cost)
    return sqrt(own / total) if total else 0.0

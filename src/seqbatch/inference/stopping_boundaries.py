"""Group-sequential boundaries: alpha spending, futility, and the probability of stopping early."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from math import ceil, e, hypot, inf, log, pi, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError

# ----------------------------------------------------------------------
# Boundaries by alpha spending, for any number of looks at any information; and the classical ones.
#
# The density of the statistic on paths that have not crossed a boundary is carried from look to
# look by numerical integration (Armitage, McPherson and Rowe 1969). Each boundary is set to spend
# what the spending function allows (Lan and DeMets 1983). Classical boundaries have a shape over
# all planned looks (Wang and Tsiatis 1987) and one constant, set to spend alpha over all of them.
# One-sided; both sides are symmetric.


#: The spending functions by name, with the names that stored specs may have for them.
SPENDING = {
    "obrien-fleming-spending": "obrien-fleming",
    "pocock-spending": "pocock",
    "obrien-fleming": "obrien-fleming",
    "pocock": "pocock",
}
#: The classical boundaries: the power of the information fraction that the boundary follows.
CLASSICAL = {"obrien-fleming-classical": -0.5, "pocock-classical": 0.0}
RULES = (*SPENDING, *CLASSICAL)
#: How bounds for futility spend the chance to miss an effect, by the classical boundary.
FUTILE = {
    "obrien-fleming-classical": "obrien-fleming-spending",
    "pocock-classical": "pocock-spending",
}
#: Beyond this, the normal distribution is negligible; and an error below this.
FAR, NEGLIGIBLE = 9.0, 1e-15
#: Looks are those planned before if their information differs by less.
SAME = 1e-9
#: Gauss-Legendre nodes per panel of at most two standard deviations.
NODES = 20
#: Gauss-Legendre nodes for all that is within reach (FAR) of an increment.
FINE_NODES = 64


def spent(information: float, *, rule: str, alpha: float = 0.025) -> float:
    """Return the error that may be spent up to this information fraction.

    O'Brien-Fleming type 2 - 2 Phi(z_{1-alpha/2} / sqrt t), Pocock type alpha ln(1 + (e - 1) t).

    Parameters
    ----------
    information
        t, between 0 and 1.
    rule
        ``"obrien-fleming-spending"`` (also called ``"obrien-fleming"``) or ``"pocock-spending"``
        (also ``"pocock"``).
    alpha
        The total error, one-sided.

    Examples
    --------
    >>> round(spent(0.5, rule="obrien-fleming-spending"), 5)
    0.00153
    >>> round(spent(0.5, rule="pocock-spending"), 5)
    0.0155
    """
    from scipy.special import ndtr, ndtri

    arguments.choice("rule", rule, tuple(SPENDING))
    if information >= 1:
        return alpha
    if SPENDING[rule] == "pocock":
        return alpha * log(1 + (e - 1) * information)
    return float(2 * ndtr(ndtri(alpha / 2) / sqrt(information)))


def boundaries(
    information: Sequence[float],
    *,
    rule: str,
    alpha: float = 0.025,
    ahead: Sequence[Sequence[float]] | None = None,
) -> tuple[float, ...]:
    """Return the boundary of the standardised statistic at each look.

    The boundary is infinite for a look that may spend practically nothing.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the looks taken so far.
    rule
        A spending function (see :func:`spent`), ``"obrien-fleming-classical"`` (proportional to
        1/sqrt(t)) or ``"pocock-classical"`` (the same at every look).
    alpha
        The total error, one-sided.
    ahead
        For classical boundaries: at each look, the information at the looks then still planned
        after it; by default the later ones of `information`. If the plan changed, the looks still
        to come share what earlier boundaries left.

    Examples
    --------
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="obrien-fleming-spending")]
    [3.71, 2.511, 1.993]
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="pocock-spending")]
    [2.279, 2.295, 2.296]
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="obrien-fleming-classical")]
    [3.471, 2.454, 2.004]
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="pocock-classical")]
    [2.289, 2.289, 2.289]
    """
    times = tuple(require_information(information))
    arguments.number("alpha", alpha, above=0, at_most=0.5)
    arguments.choice("rule", rule, RULES)
    if rule in SPENDING:
        return _boundaries(times, SPENDING[rule], alpha)
    later = [times[place:] for place in range(1, len(times) + 1)] if ahead is None else ahead
    if len(later) != len(times):
        raise InvalidArgumentError("ahead", f"{len(times)} lists, one per look", len(later))
    plans = tuple(
        tuple(require_information([time, *rest])) for time, rest in zip(times, later, strict=True)
    )
    return _classical(plans, CLASSICAL[rule], alpha)


@lru_cache(maxsize=256)
def _boundaries(times: tuple[float, ...], rule: str, alpha: float) -> tuple[float, ...]:
    """Compute the boundaries, cached because the same looks recur wave after wave."""
    state, found, before = None, [], 0.0
    for time in times:
        total = spent(time, rule=rule, alpha=alpha)
        state = Density.first(time) if state is None else state.carried(time)
        found.append(state.upper(total - before))
        before = total
        state = state.kept(-FAR, found[-1])
    return tuple(found)


@lru_cache(maxsize=256)
def _classical(
    plans: tuple[tuple[float, ...], ...], power: float, alpha: float
) -> tuple[float, ...]:
    """Compute boundaries c t^power; a plan has a look's time and those still to come.

    The constant is solved again only where the looks to come are not those planned before.
    """
    found: list[float] = []
    state, constant, left = None, inf, alpha
    planned: tuple[float, ...] = ()
    for plan in plans:
        time = plan[0]
        state = Density.first(time) if state is None else state.carried(time)
        if len(plan) != len(planned) or max(map(_gap, plan, planned)) > SAME:
            constant = _constant(state, plan, power, left)
        found.append(constant * time**power)
        left -= state.above(found[-1])
        state, planned = state.kept(-FAR, found[-1]), plan[1:]
    return tuple(found)


def _constant(state: "Density", plan: Sequence[float], power: float, error: float) -> float:
    """Return c with which the planned looks have this error in total, from a look's state on."""
    from scipy.optimize import brentq

    if error < NEGLIGIBLE:
        return inf

    def excess(constant: float) -> float:
        now, crossed = state, 0.0
        for place, time in enumerate(plan):
            bound = constant * time**power
            now = now.kept(-FAR, bound)
            crossed += now.above(bound)
            if place + 1 < len(plan):
                now = now.carried(plan[place + 1])
        return crossed - error

    return float(brentq(excess, 0.0, 2 * FAR, xtol=1e-10))


def _gap(one: float, other: float) -> float:
    return abs(one - other)


def require_information(information: Sequence[float]) -> list[float]:
    """Return the information fractions after checking that they increase and lie in (0, 1]."""
    times = [arguments.number("information", t, above=0, at_most=1 + 1e-9) for t in information]
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise InvalidArgumentError(
            "information", "fractions that increase from look to look", times
        )
    return times


@dataclass(frozen=True, eq=False)
class Panels:
    """A density on intervals, as one polynomial per interval.

    Parameters
    ----------
    low, high
        The ends of the intervals.
    coefficients
        Legendre coefficients, one column per interval.
    """

    low: Floats
    high: Floats
    coefficients: Floats

    def masses(self, low: Floats, high: Floats) -> tuple[Integers, Floats, Floats]:
        """Return quadrature points of the density between each low and high.

        Returns
        -------
        tuple of arrays
            For each overlap of a range with an interval: the range's index, the points, and the
            density times the quadrature weight at each point.
        """
        if not len(self.low):
            return np.empty(0, dtype=np.int64), np.empty((0, 1)), np.empty((0, 1))
        start = np.maximum(low[:, None], self.low)
        end = np.minimum(high[:, None], self.high)
        ranges, own = np.nonzero(start < end)
        start, end = start[ranges, own], end[ranges, own]
        nodes, weights = gauss_legendre(FINE_NODES)
        half = ((end - start) / 2)[:, None]
        points = start[:, None] + half * (nodes + 1)
        first, length = self.low[own, None], (self.high - self.low)[own, None]
        density = np.polynomial.legendre.legval(
            2 * (points - first) / length - 1, self.coefficients[:, own, None], tensor=False
        )
        return ranges, points, density * weights * half


@dataclass(frozen=True, eq=False)
class Density:
    """The distribution of the statistic Z at a look, on paths that have not stopped before.

    It is what earlier looks left, plus a normal increment with standard deviation `deviation`.
    What they left is a sum of points `centres` with `weights`, and of `panels` that are too wide
    for points: wider than two deviations. :meth:`kept` truncates the distribution to the paths
    between two boundaries.

    The cost does not depend on how small an increment is. Wherever the increment is much narrower
    than a panel, only the part of the panel within reach of the increment is integrated.

    Parameters
    ----------
    time
        The information fraction.
    mean
        The mean of Z if no path stopped before; 0 under the null hypothesis.
    centres, weights, panels
        What earlier looks left.
    deviation
        The standard deviation of the increment of Z.
    edges
        Where earlier boundaries cut the distribution, on today's scale, and the standard deviation
        of all increments since. The density changes quickly only there.
    low, high
        Where paths stop.
    """

    time: float
    mean: float
    centres: Floats
    weights: Floats
    panels: Panels
    deviation: float
    edges: tuple[tuple[float, float], ...] = ()
    low: float = -inf
    high: float = inf

    @classmethod
    def first(cls, time: float, mean: float = 0.0) -> "Density":
        """Return Z at the first look: normal with this mean."""
        nothing = Panels(np.empty(0), np.empty(0), np.empty((NODES, 0)))
        return cls(time, mean, np.array([mean]), np.ones(1), nothing, 1.0)

    def above(self, bound: float) -> float:
        """Return the probability of being above a bound now without having stopped before."""
        from scipy.special import ndtr

        near = bound - FAR * self.deviation, bound + FAR * self.deviation
        _, points, masses = self.panels.masses(np.array(near), np.array([near[1], inf]))
        found = self.weights @ ndtr((self.centres - bound) / self.deviation)
        return float(found + (masses * ndtr((points - bound) / self.deviation)).sum())

    def below(self, bound: float) -> float:
        """Return the probability of being below a bound now without having stopped before."""
        from scipy.special import ndtr

        near = bound - FAR * self.deviation, bound + FAR * self.deviation
        _, points, masses = self.panels.masses(np.array([-inf, near[0]]), np.array(near))
        found = self.weights @ ndtr((bound - self.centres) / self.deviation)
        return float(found + (masses * ndtr((bound - points) / self.deviation)).sum())

    def at(self, z: Floats) -> Floats:
        """Return the density at many values."""
        reach = FAR * self.deviation
        ranges, points, masses = self.panels.masses(z - reach, z + reach)
        found = _normal((z[:, None] - self.centres) / self.deviation) @ self.weights
        parts = (masses * _normal((z[ranges, None] - points) / self.deviation)).sum(axis=1)
        return (found + np.bincount(ranges, parts, minlength=len(z))) / self.deviation

    def upper(self, error: float) -> float:
        """Return the bound that Z exceeds with this probability."""
        from scipy.optimize import brentq

        if error < NEGLIGIBLE:
            return inf
        return float(brentq(lambda b: self.above(b) - error, -FAR, 2 * FAR, xtol=1e-10))

    def lower(self, error: float) -> float:
        """Return the bound that Z falls below with this probability."""
        from scipy.optimize import brentq

        if error < NEGLIGIBLE:
            return -inf
        if self.below(2 * FAR) <= error:
            return inf
        return float(brentq(lambda b: self.below(b) - error, -2 * FAR, 2 * FAR, xtol=1e-10))

    def kept(self, low: float, high: float) -> "Density":
        """Return the same distribution, with paths outside (low, high) stopped now."""
        return replace(self, low=low, high=high)

    def carried(self, time: float, mean: float = 0.0) -> "Density":
        """Return the distribution of Z at the next look, on the paths that continue."""
        low = max(self.low, self.mean - FAR)
        high = max(min(self.high, self.mean + FAR), low)
        ends = _ends(low, high, self.edges)
        nodes, weights = gauss_legendre(NODES)
        half = np.diff(ends) / 2
        z = ends[:-1, None] + half[:, None] * (nodes + 1)
        density = self.at(z.ravel()).reshape(z.shape)
        # On the scale of the next look, a path continues from shrink z + shift.
        shrink, deviation = sqrt(self.time / time), sqrt((time - self.time) / time)
        shift = mean - shrink * self.mean
        wide = shrink * half > deviation
        cut = [bound for bound in (self.low, self.high) if abs(bound - self.mean) < FAR]
        edges = [(place, hypot(shrink * width, deviation)) for place, width in self.edges]
        edges += [(bound, deviation) for bound in cut]
        return Density(
            time,
            mean,
            (shrink * z + shift)[~wide].ravel(),
            (half[:, None] * weights * density)[~wide].ravel(),
            Panels(
                (shrink * ends[:-1] + shift)[wide],
                (shrink * ends[1:] + shift)[wide],
                legendre_coefficients(density[wide] / shrink),
            ),
            deviation,
            tuple((shrink * place + shift, width) for place, width in edges),
        )


@cache
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(count)


def legendre_coefficients(values: Floats) -> Floats:
    """Return polynomials through values at Gauss-Legendre nodes.

    Parameters
    ----------
    values
        One row per polynomial, one column per node.

    Returns
    -------
    array
        Legendre coefficients, one column per polynomial.
    """
    return _legendre_basis(values.shape[1]) @ values.T


@cache
def _legendre_basis(count: int) -> Floats:
    """Return the matrix that turns values at Gauss-Legendre nodes into coefficients."""
    nodes, weights = gauss_legendre(count)
    basis = np.polynomial.legendre.legvander(nodes, count - 1) * weights[:, None]
    return (basis * (np.arange(count) + 0.5)).T


def _normal(z: Floats) -> Floats:
    """Return the standard normal density."""
    return np.exp(-(z**2) / 2) / sqrt(2 * pi)


def _ends(low: float, high: float, edges: Sequence[tuple[float, float]]) -> Floats:
    """Return the ends of panels that are no wider than two standard deviations of the density.

    That is 1, and less around an edge.
    """
    reached = [(place - FAR * width, place + FAR * width, width) for place, width in edges]
    cuts = {low, high, *(end for first, last, _ in reached for end in (first, last))}
    places = sorted(place for place in cuts if low <= place <= high)
    ends = [np.array([low])]
    for start, end in pairwise(places):
        inside = [width for first, last, width in reached if first <= start and end <= last]
        count = ceil((end - start) / (2 * min([1.0, *inside])))
        ends.append(np.linspace(start, end, count + 1)[1:])
    return np.concatenate(ends)


# ----------------------------------------------------------------------
# Futility bounds, below which success has become unlikely.
#
# They are non-binding: success boundaries do not rely on them, and continuing below one does not
# inflate the error.


def futility_boundaries(
    information: Sequence[float], *, rule: str, alpha: float = 0.025, power: float = 0.9
) -> tuple[float, ...]:
    """Return the bound at each look below which stopping for futility is suggested.

    The probability of missing an effect, 1 - power, is spent over the looks by the same rule as the
    error. The effect is the one at which futility and success bounds meet at full information: with
    it, the campaign succeeds with probability `power` even if every futility bound is followed.

    Parameters
    ----------
    information
        Fractions at all planned looks; the last is 1.
    rule, alpha
        See :func:`boundaries`; with a classical boundary, futility has the spending function of the
        same name.
    power
        The probability of success at the effect that the campaign is designed for.

    Examples
    --------
    >>> looks = [1 / 3, 2 / 3, 1]
    >>> [round(b, 3) for b in futility_boundaries(looks, rule="obrien-fleming-spending")]
    [-0.695, 1.002, 1.993]
    """
    from scipy.optimize import brentq

    times = require_information(information)
    miss = 1 - arguments.number("power", power, above=alpha, at_most=1 - 1e-6)
    success = boundaries(times, rule=rule, alpha=alpha)

    spending = FUTILE.get(rule, rule)

    def excess(drift: float) -> float:
        return _followed(times, success, drift, spending, miss)[1] - power

    effect = float(brentq(excess, 0.01, 12, xtol=1e-9))
    return tuple(_followed(times, success, effect, spending, miss)[0])


def _followed(
    times: Sequence[float], success: Sequence[float], drift: float, rule: str, miss: float
) -> tuple[list[float], float]:
    """Return the bounds at this drift, and the probability of success if all are followed."""
    state, found, before, won = None, [], 0.0, 0.0
    for time, high in zip(times, success, strict=True):
        total = spent(time, rule=rule, alpha=miss)
        mean = drift * sqrt(time)
        state = Density.first(time, mean) if state is None else state.carried(time, mean)
        won += state.above(high)
        last = time == times[-1]
        # Never above the success bound, and equal to it at the end.
        low = high if last else min(state.lower(total - before), high)
        found.append(low)
        before = total
        state = state.kept(low, high)
    return found, won


# ----------------------------------------------------------------------
# The error of several looks that all use the bound of a single one.


def error_of_looks(information: Sequence[float], *, bound: float | Sequence[float]) -> float:
    """Return the two-sided error of stopping at the first look beyond its bound, under the null.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the looks.
    bound
        The bound at every look, for example 1.96; or one for each look.

    Examples
    --------
    >>> round(error_of_looks([1.0], bound=1.959964), 4)
    0.05
    >>> round(error_of_looks([1 / 3, 2 / 3, 1], bound=1.959964), 3)
    0.107
    """
    times = require_information(information)
    bounds = [bound] * len(times) if isinstance(bound, int | float) else bound
    if len(bounds) != len(times):
        raise InvalidArgumentError("bound", f"{len(times)} numbers, one per look", len(bounds))
    state, crossed = None, 0.0
    for time, end in zip(times, bounds, strict=True):
        state = Density.first(time) if state is None else state.carried(time)
        crossed += state.above(end) + state.below(-end)
        state = state.kept(-end, end)
    return crossed


# ----------------------------------------------------------------------
# The probability that each planned look finds a lift.


def chances_to_stop(
    information: Sequence[float], means: Sequence[float], *, rule: str, alpha: float = 0.025
) -> tuple[float, ...]:
    """Return the probability that each look is the first to find a lift.

    A lift is found if the statistic exceeds the boundary. Paths that fell below the negative
    boundary have also stopped, with the opposite verdict, and do not count.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the planned looks.
    means
        The mean of the statistic at each look: the lift over its standard error at that time.
    rule, alpha
        See :func:`boundaries`.

    Examples
    --------
    A lift that a single look at the end finds with probability 0.9, with three looks:

    >>> means = [3.2415 * sqrt(t) for t in (1 / 3, 2 / 3, 1)]
    >>> chances = chances_to_stop([1 / 3, 2 / 3, 1], means, rule="obrien-fleming-spending")
    >>> [round(chance, 3) for chance in chances], round(sum(chances), 3)
    ([0.033, 0.521, 0.342], 0.897)
    """
    times = require_information(information)
    if len(means) != len(times):
        raise InvalidArgumentError("means", f"{len(times)} numbers, one per look", len(means))
    state, found = None, []
    for time, mean, bound in zip(
        times, means, boundaries(times, rule=rule, alpha=alpha), strict=True
    ):
        # The statistic's mean need not grow evenly.
        state = Density.first(time, mean) if state is None else state.carried(time, mean)
        found.append(state.above(bound))
        state = state.kept(-bound, bound)
    return tuple(found)


def detectable_drift(
    information: Sequence[float], *, rule: str, alpha: float = 0.025, power: float = 0.8
) -> float:
    """Return the lift, in standard errors at full information, that some look finds.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the planned looks.
    rule, alpha
        See :func:`boundaries`.
    power
        The probability of finding it.

    Examples
    --------
    >>> looks = [1 / 3, 2 / 3, 1]
    >>> round(detectable_drift(looks, rule="obrien-fleming-spending", power=0.9), 3)
    3.261
    """
    from scipy.optimize import brentq

    arguments.number("power", power, above=alpha, at_most=1 - 1e-6)
    times = require_information(information)

    def excess(drift: float) -> float:
        means = [drift * sqrt(time) for time in times]
        return sum(chances_to_stop(times, means, rule=rule, alpha=alpha)) - power

    return float(brentq(excess, 0.0, 20.0, xtol=1e-6))

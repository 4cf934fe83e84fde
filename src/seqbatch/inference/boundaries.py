"""Group-sequential boundaries by alpha spending, for any number of looks at any information.

Before the boundary is crossed, the statistic's density is carried from look to look by numerical
integration (Armitage, McPherson and Rowe 1969), and each boundary is set to spend what the
spending function allows (Lan and DeMets 1983). One-sided; both sides have the same boundary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import ceil, e, log, pi, sqrt

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError

RULES = ("obrien-fleming", "pocock")
#: Beyond this the normal distribution has nothing left that would count.
FAR = 9.0
#: Gauss and Legendre's quadrature in panels of at most two standard deviations of an increment.
NODES = 20


def spent(information: float, *, rule: str, alpha: float = 0.025) -> float:
    """Return the error that may be spent until this fraction of the information is in.

    O'Brien-Fleming type 2 - 2 Phi(z_{1-alpha/2} / sqrt t), Pocock type alpha ln(1 + (e - 1) t).

    Parameters
    ----------
    information
        t, between 0 and 1.
    rule
        ``"obrien-fleming"`` or ``"pocock"``.
    alpha
        The whole error, one-sided.

    Examples
    --------
    >>> round(spent(0.5, rule="obrien-fleming"), 5), round(spent(0.5, rule="pocock"), 5)
    (0.00153, 0.0155)
    """
    from scipy.special import ndtr, ndtri

    arguments.choice("rule", rule, RULES)
    if information >= 1:
        return alpha
    if rule == "pocock":
        return alpha * log(1 + (e - 1) * information)
    return float(2 * ndtr(ndtri(alpha / 2) / sqrt(information)))


def boundaries(
    information: Sequence[float], *, rule: str, alpha: float = 0.025
) -> tuple[float, ...]:
    """Return the boundary of the standardised statistic at each look.

    A look that may spend next to nothing has the boundary infinity.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the looks taken so far.
    rule, alpha
        See :func:`spent`.

    Examples
    --------
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="obrien-fleming")]
    [3.71, 2.511, 1.993]
    >>> [round(b, 3) for b in boundaries([1 / 3, 2 / 3, 1], rule="pocock")]
    [2.279, 2.295, 2.296]
    """
    times = require_information(information)
    arguments.number("alpha", alpha, above=0, at_most=0.5)
    return _boundaries(tuple(times), rule, alpha)


@lru_cache(maxsize=256)
def _boundaries(times: tuple[float, ...], rule: str, alpha: float) -> tuple[float, ...]:
    """Compute them once: the same looks are asked about wave after wave."""
    state, found, before = None, [], 0.0
    for time in times:
        total = spent(time, rule=rule, alpha=alpha)
        state = Density.first(time) if state is None else state.carried(time)
        found.append(state.upper(total - before))
        before = total
        state = state.kept(-FAR, found[-1])
    return tuple(found)


def require_information(information: Sequence[float]) -> list[float]:
    """Return fractions that grow and lie between 0 and 1, or say which rule they break."""
    times = [arguments.number("information", t, above=0, at_most=1 + 1e-9) for t in information]
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise InvalidArgumentError("information", "fractions that grow from look to look", times)
    return times


@dataclass(frozen=True, eq=False)
class Density:
    """The statistic Z at a look, on paths that have not crossed a boundary before.

    Before it is cut off it is a mixture: `weights` of normals around `centres`, all of deviation
    `deviation`. Cut off by :meth:`kept`, it is that density between two boundaries.

    Parameters
    ----------
    time
        The information.
    centres, weights
        The mixture that earlier looks left.
    deviation
        Of the part of Z that is new.
    drift
        The mean of Z when all information is in; 0 under the null hypothesis.
    low, high
        Where paths stop.
    """

    time: float
    centres: Floats
    weights: Floats
    deviation: float
    drift: float = 0.0
    low: float = -FAR
    high: float = FAR

    @classmethod
    def first(cls, time: float, drift: float = 0.0) -> "Density":
        """Return Z at the first look: normal with mean drift times sqrt t."""
        return cls(time, np.array([drift * sqrt(time)]), np.ones(1), 1.0, drift)

    def above(self, bound: float) -> float:
        """Return the probability to be above a bound now, and not to have stopped before."""
        from scipy.special import ndtr

        return float(self.weights @ ndtr((self.centres - bound) / self.deviation))

    def below(self, bound: float) -> float:
        """Return the probability to be below a bound now, and not to have stopped before."""
        from scipy.special import ndtr

        return float(self.weights @ ndtr((bound - self.centres) / self.deviation))

    def upper(self, error: float) -> float:
        """Return the bound that is crossed upward with this probability."""
        from scipy.optimize import brentq

        if error < 1e-15:
            return float("inf")
        return float(brentq(lambda b: self.above(b) - error, -FAR, 2 * FAR, xtol=1e-10))

    def lower(self, error: float) -> float:
        """Return the bound that is crossed downward with this probability."""
        from scipy.optimize import brentq

        if error < 1e-15:
            return -float("inf")
        if self.below(2 * FAR) <= error:
            return float("inf")
        return float(brentq(lambda b: self.below(b) - error, -2 * FAR, 2 * FAR, xtol=1e-10))

    def kept(self, low: float, high: float) -> "Density":
        """Return the same where paths outside (low, high) stop now."""
        return Density(self.time, self.centres, self.weights, self.deviation, self.drift, low, high)

    def carried(self, time: float) -> "Density":
        """Return Z at the next look, on the paths that went on."""
        middle = self.drift * sqrt(self.time)
        low = max(self.low, middle - FAR)
        high = max(min(self.high, middle + FAR), low)
        new = sqrt(1 - self.time / time)
        # Nodes as dense as the narrower of the two normals that are integrated.
        z, weights = _nodes(low, high, width=min(new, self.deviation))
        away = (z[:, None] - self.centres) / self.deviation
        density = np.exp(-(away**2) / 2) @ self.weights / (self.deviation * sqrt(2 * pi))
        shift = self.drift * (time - self.time) / sqrt(time)
        return Density(
            time,
            z * sqrt(self.time / time) + shift,
            weights * density,
            new,
            self.drift,
        )


@cache
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights between -1 and 1."""
    return np.polynomial.legendre.leggauss(count)


def _nodes(low: float, high: float, *, width: float) -> tuple[Floats, Floats]:
    """Return nodes and weights between two numbers, for functions that vary over this width."""
    nodes, weights = gauss_legendre(NODES)
    panels = max(ceil((high - low) / (2 * width)), 2)
    ends = np.linspace(low, high, panels + 1)
    half = (high - low) / panels / 2
    z = (ends[:-1, None] + half * (nodes + 1)).ravel()
    return z, np.tile(weights * half, panels)

"""Estimates adjusted for early stopping: median-unbiased, by stage-wise ordering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign, inf

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.intervals import Estimated, Interval, Shape, quantile
from seqbatch.inference.stopping_boundaries import Density, require_information

# A campaign that stops because a lift looks large tends to stop while it is overestimated. Results
# are therefore ordered by stages (Armitage 1957; Siegmund 1978; Tsiatis, Rosner and Mehta 1984): a
# result is higher if it crossed the upper boundary earlier, or at the same look with a larger
# statistic. The probability of a result at least as high as the one seen grows with the true lift:
# where it is 1/2, there is the median-unbiased estimate, and where it is the tail or 1 less the
# tail, there are the limits. Looks that might have followed do not matter.

ADJUSTED = "Adjusted for stopping at a look: median-unbiased, by stage-wise ordering."
#: Roots are found to this part of a standard error.
PRECISE = 1e-6
#: Secant steps, and how far to search in standard errors where they do not suffice.
STEPS, FARTHEST = 12, 64.0


@dataclass(frozen=True, kw_only=True)
class EarlierLook:
    """A look at which the campaign did not stop.

    Parameters
    ----------
    information
        The information fraction.
    error
        The standard error of the estimate by then.
    low, high
        The statistics at or beyond which the campaign would have stopped.
    """

    information: float
    error: float
    low: float
    high: float


def stage_wise(
    shape: Shape, value: float, *, information: float, before: Sequence[EarlierLook]
) -> float:
    """Return the probability of a result at least as high as the one seen, if a value is true.

    Parameters
    ----------
    shape
        The estimate when the campaign ended.
    value
        The value.
    information
        The information fraction when it ended.
    before
        The looks before.

    Examples
    --------
    Three equal looks by Pocock's boundary 2.289, and a statistic of 2.5 at the second one:

    >>> from seqbatch.inference.intervals import StudentShape
    >>> first = EarlierLook(information=1 / 3, error=3**0.5, low=-2.289, high=2.289)
    >>> second = StudentShape(2.5 * 1.5**0.5, 1.5**0.5, inf)
    >>> round(stage_wise(second, 0.0, information=2 / 3, before=[first]), 4)
    0.0151
    """
    state, crossed = None, 0.0
    for one in before:
        mean = value / one.error
        here = one.information
        state = Density.first(here, mean) if state is None else state.carried(here, mean)
        crossed += state.above(one.high)
        state = state.kept(one.low, one.high)
    mean = value / shape.error
    state = Density.first(information, mean) if state is None else state.carried(information, mean)
    return min(crossed + state.above(mean + shape.statistic(value)), 1.0)


def adjusted_estimate(
    estimate: Estimated,
    *,
    information: float,
    before: Sequence[EarlierLook],
    tail: float,
    level: float = 0.95,
) -> Interval:
    """Return the median-unbiased estimate of a lift with its interval, after the last look.

    Without earlier looks it is the plain estimate. It is median-unbiased over all ways in which
    the campaign could end; among campaigns that stopped early alone, it is still too high.

    Parameters
    ----------
    estimate
        The estimate when the campaign ended.
    information
        The information fraction when it ended.
    before
        The looks before, without those that could not stop the campaign.
    tail
        The error on each side of the interval.
    level
        The coverage to state.

    Examples
    --------
    >>> from seqbatch.inference.intervals import student
    >>> plain = student("lift", 2.5 * 1.5**0.5, 1.5, inf, level=0.95)
    >>> first = EarlierLook(information=1 / 3, error=3**0.5, low=-2.289, high=2.289)
    >>> made = adjusted_estimate(plain, information=2 / 3, before=[first], tail=0.025)
    >>> [round(one, 2) for one in (plain.estimate, made.estimate, made.low, made.high)]
    [3.06, 2.92, 0.3, 5.38]
    """
    times = require_information([*(one.information for one in before), information])
    arguments.number("tail", tail, above=0, at_most=0.5)
    errors = [*(one.error for one in before), estimate.error]
    if not all(error > 0 for error in errors):
        raise InvalidArgumentError("error", "above 0", errors)
    shape = estimate.shape

    def score(value: float) -> float:
        from scipy.special import ndtri

        chance = stage_wise(shape, value, information=times[-1], before=before)
        return float(ndtri(min(max(chance, 1e-300), 1 - 1e-16)))

    middle, (low, high) = shape.estimate, shape.limits(tail)
    if before:
        z = quantile(tail, inf)
        middle = _root(score, 0.0, near=middle, error=shape.error)
        low = _root(score, -z, near=low, error=shape.error)
        high = _root(score, z, near=high, error=shape.error)
    return Interval(
        about=estimate.about,
        estimate=middle,
        error=estimate.error,
        df=estimate.df,
        level=level,
        low=low,
        high=high,
        statistic=-score(0.0),
        note=f"{estimate.note} {ADJUSTED}".strip(),
    )


def _root(score: Callable[[float], float], wanted: float, *, near: float, error: float) -> float:
    """Return where an increasing score, almost a line of slope 1/error, has the wanted value."""
    from scipy.optimize import brentq

    before, gap = near, score(near) - wanted
    place = near - gap * error
    for _ in range(STEPS):
        now = score(place) - wanted
        if abs(now) < PRECISE or now == gap:
            return place
        before, gap, place = place, now, place - now * (place - before) / (now - gap)
    # A score with a bend, for example near the limits of a share: bisect.
    reach = FARTHEST * error
    ends = near - reach, near + reach
    if not score(ends[0]) < wanted < score(ends[1]):
        return copysign(inf, wanted) if wanted else near
    return float(brentq(lambda v: score(v) - wanted, *ends, xtol=PRECISE * error))

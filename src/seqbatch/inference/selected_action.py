"""The selected action: what to expect of the one that looks best among several.

The best of several estimates is too good on average, because luck is selected, too. A shrunken
estimate is therefore drawn towards the common part of all lifts, and the interval covers the lift
of whichever action is selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.intervals import Estimated, Interval

# ----------------------------------------------------------------------
# Shrunken estimates: true values are normal around a common part, with an estimated scale.


@dataclass(frozen=True, eq=False)
class Shrunken:
    """Estimates drawn towards their common part, as far as they look similar.

    Parameters
    ----------
    values
        The shrunken estimates.
    common
        The common part.
    spread
        tau, the standard deviation of true values around it.
    """

    values: Floats
    common: float
    spread: float


#: The scale is searched up to so many times the range of estimates and their largest error.
WIDEST = 10.0
#: The number of scales in each search, and of searches; each is around the best of the one before.
SCALES, SEARCHES = 64, 6


def shrink(estimates: Floats, covariance: Floats) -> Shrunken:
    """Shrink estimates with normal errors, by empirical Bayes.

    estimates ~ N(common, covariance + tau^2 I) with a flat common part; tau is the most likely one
    by restricted maximum likelihood.

    Parameters
    ----------
    estimates
        Two or more estimates, shape (K,).
    covariance
        The covariance of their errors, shape (K, K).

    Examples
    --------
    >>> made = shrink(np.array([0.1, 0.3]), 0.01 * np.eye(2))
    >>> made.values.round(3).tolist(), round(made.spread, 3)
    ([0.15, 0.25], 0.1)
    """
    low, high = 0.0, WIDEST * float(np.ptp(estimates) + sqrt(np.diagonal(covariance).max()))
    # The first search is finer near 0.
    scales, tau = high * np.linspace(0.0, 1.0, SCALES) ** 3, 0.0
    for _ in range(SEARCHES):
        best = int(_restricted_log_likelihood(estimates, covariance, scales).argmax())
        tau = float(scales[best])
        low, high = scales[max(best - 1, 0)], scales[min(best + 1, SCALES - 1)]
        scales = np.linspace(low, high, SCALES)
    inverses, commons = _common(estimates, covariance, np.array([tau]))
    common = float(commons[0])
    return Shrunken(common + tau**2 * inverses[0] @ (estimates - common), common, tau)


def _common(estimates: Floats, covariance: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """Return the inverse of all variance, and the common part, at each scale."""
    whole = covariance + scales[:, None, None] ** 2 * np.eye(len(estimates))
    inverses = np.asarray(np.linalg.inv(whole), dtype=np.float64)
    weights = inverses.sum(axis=1)
    return inverses, weights @ estimates / weights.sum(axis=1)


def _restricted_log_likelihood(estimates: Floats, covariance: Floats, scales: Floats) -> Floats:
    """Return the log-likelihood of each scale, up to a constant."""
    inverses, commons = _common(estimates, covariance, scales)
    rest = estimates - commons[:, None]
    squares = np.einsum("tk,tkl,tl->t", rest, inverses, rest)
    log = np.linalg.slogdet(inverses)[1] - np.log(inverses.sum(axis=(1, 2))) - squares
    return np.asarray(0.5 * log, dtype=np.float64)


# ----------------------------------------------------------------------
# The interval: for whichever action is selected, by whatever rule.
#
# On the worse side all lifts must be covered jointly, because an action with luck is selected. On
# the better side much less is needed: the selected action is no better than the best one, and that
# is below its own limit, whichever it is. So it is below the largest limit of all, each at nearly
# the whole error; a limit of the selected action's own, for what is left of the error and for the
# number of actions, helps where others are imprecise.


#: The part of one side's error for the selected action's own limit on the better side.
OWN = 0.2


@dataclass(frozen=True, kw_only=True)
class SelectedAction:
    """What to expect of the action with the best estimate.

    Parameters
    ----------
    place
        Its place among the lifts.
    competing
        How many compete.
    raw
        Its lift as estimated, which is too good on average.
    interval
        The shrunken estimate, with an interval that covers the lift of whichever is selected.
    common, spread
        The common part of the competing lifts, and the standard deviation of true lifts around it.
    """

    place: int
    competing: int
    raw: float
    interval: Interval
    common: float
    spread: float

    def __str__(self) -> str:
        return str(self.interval)


def selected_action(
    lifts: Sequence[Interval],
    loadings: Sequence[float],
    *,
    among: Sequence[bool] | None = None,
    tail: float | None = None,
    less: bool = False,
) -> SelectedAction | None:
    """Return what to expect of the best of several lifts; None if fewer than two compete.

    Parameters
    ----------
    lifts
        All lifts, with intervals that cover jointly, from
        :func:`~seqbatch.inference.multiplicity.simultaneous_lifts`.
    loadings
        l_a of each, from :func:`~seqbatch.inference.multiplicity.control_loadings`: lifts a and b
        have the correlation l_a l_b.
    among
        Which of them compete; all known ones by default.
    tail
        The error on each side that is left after looks; by default that of the lifts' level.
    less
        Whether the lowest lift is best.
    """
    competing = [True] * len(lifts) if among is None else list(among)
    for name, given in (("loadings", loadings), ("among", competing)):
        if len(given) != len(lifts):
            raise InvalidArgumentError(name, f"one for each of {len(lifts)} lifts", len(given))
    known = [one for one in lifts if isinstance(one, Estimated)]
    rivals = [
        (place, one) for place, one in enumerate(lifts)
        if competing[place] and isinstance(one, Estimated)
    ]  # fmt: skip
    if len(rivals) < 2 or not all(one.error > 0 for _, one in rivals):
        return None
    sign = -1.0 if less else 1.0
    place, best = max(rivals, key=lambda rival: sign * rival[1].estimate)
    shrunken = shrink(*_normal(rivals, loadings))
    low, high = _limits(best, known, (1 - best.level) / 2 if tail is None else tail, less=less)
    expected = float(shrunken.values[[one for one, _ in rivals].index(place)])
    return SelectedAction(
        place=place,
        competing=len(rivals),
        raw=best.estimate,
        interval=Interval(
            about=best.about,
            estimate=min(max(expected, low), high),
            error=best.error,
            df=best.df,
            level=best.level,
            low=low,
            high=high,
            statistic=best.statistic,
            note=f"The best of {len(rivals)} estimates, drawn towards all of them.",
        ),
        common=shrunken.common,
        spread=shrunken.spread,
    )


def _normal(
    rivals: Sequence[tuple[int, Estimated]], loadings: Sequence[float]
) -> tuple[Floats, Floats]:
    """Return the estimates and their covariance, in which they share the control."""
    errors = np.array([one.error for _, one in rivals])
    shared = errors * np.array([loadings[place] for place, _ in rivals])
    covariance = np.diag(errors**2 - shared**2) + np.outer(shared, shared)
    return np.array([one.estimate for _, one in rivals]), covariance


def _limits(
    best: Estimated, known: Sequence[Estimated], tail: float, *, less: bool
) -> tuple[float, float]:
    """Return the joint limit on the worse side, and that of any selection on the better one."""
    each = [one.limits((1 - OWN) * tail) for one in known]
    low, high = best.limits(OWN * tail / len(known))
    if less:
        return max(min(one for one, _ in each), low), best.high
    return best.low, min(max(one for _, one in each), high)

"""Conditional power: the probability that a later look finds a lift, given the statistic so far."""

from collections.abc import Sequence
from math import sqrt

from seqbatch.core import arguments
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.stopping_boundaries import Density, require_information

# Given Z = z at information t, the increments that follow are independent of the past (Lan, Simon
# and Halperin 1982): Z_j sqrt(t_j) - z sqrt(t) is normal with mean drift (t_j - t) and variance
# t_j - t. So the looks to come are those of a fresh campaign with other boundaries.


def conditional_power(
    statistic: float,
    *,
    information: float,
    ahead: Sequence[float],
    bounds: Sequence[float],
    drift: float,
) -> float:
    """Return the probability that a look to come finds a lift, given the statistic so far.

    Parameters
    ----------
    statistic
        The statistic now; higher is better.
    information
        The information fraction now.
    ahead, bounds
        The information at the looks to come, and their boundaries.
    drift
        The assumed lift, in standard errors at full information.

    Examples
    --------
    Half of the information, a statistic of 1, and one look to come; if the trend so far goes on,
    and if the lift is the one that the trial was planned for with 90% power:

    >>> now = {"information": 0.5, "ahead": [1.0], "bounds": [1.96]}
    >>> for drift in (1 / 0.5**0.5, 3.24):
    ...     print(round(conditional_power(1.0, **now, drift=drift), 3))
    0.22
    0.698
    """
    times = require_information([information, *ahead])[1:]
    arguments.number("statistic", statistic)
    if len(bounds) != len(times):
        raise InvalidArgumentError("bounds", f"{len(times)} numbers, one per look", len(bounds))
    before, state, found = statistic * sqrt(information), None, 0.0
    for time, bound in zip(times, bounds, strict=True):
        gone = time - information
        mean, end = drift * sqrt(gone), (bound * sqrt(time) - before) / sqrt(gone)
        state = Density.first(gone, mean) if state is None else state.carried(gone, mean)
        found += state.above(end)
        state = state.kept(-float("inf"), end)
    return min(found, 1.0)

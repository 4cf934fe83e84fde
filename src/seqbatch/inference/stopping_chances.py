"""Before the campaign: how likely a look is to find a lift, and so to stop early."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.boundaries import Density, boundaries, require_information


def chances_to_stop(
    information: Sequence[float], means: Sequence[float], *, rule: str, alpha: float = 0.025
) -> tuple[float, ...]:
    """Return the probability that each look is the first at which a lift is found.

    Found is a statistic above the boundary; paths that fell below its negative have stopped, too,
    with the opposite verdict, which does not count.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the planned looks.
    means
        The mean of the statistic at each look: the lift over its standard error by then.
    rule, alpha
        See :func:`~seqbatch.inference.boundaries.spent`.

    Examples
    --------
    A lift that a single look at the end finds with probability 0.9, and three looks:

    >>> means = [3.2415 * sqrt(t) for t in (1 / 3, 2 / 3, 1)]
    >>> chances = chances_to_stop([1 / 3, 2 / 3, 1], means, rule="obrien-fleming")
    >>> [round(chance, 3) for chance in chances], round(sum(chances), 3)
    ([0.033, 0.521, 0.342], 0.897)
    """
    times = require_information(information)
    if len(means) != len(times):
        raise InvalidArgumentError("means", f"{len(times)} numbers, one a look", len(means))
    state, found, before = None, [], (0.0, 0.0)
    for time, mean, bound in zip(
        times, means, boundaries(times, rule=rule, alpha=alpha), strict=True
    ):
        # The drift of the part that is new: the statistic's mean need not grow evenly.
        drift = (mean * sqrt(time) - before[1]) / (time - before[0])
        if state is None:
            state = Density.first(time, drift)
        else:
            state = replace(state, drift=drift).carried(time)
        found.append(state.above(bound))
        state = state.kept(-bound, bound)
        before = (time, mean * sqrt(time))
    return tuple(found)

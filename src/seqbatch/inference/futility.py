"""When to give up: bounds below which success has become unlikely.

They are not binding: success boundaries do not count on them, so that going on below one costs
no error.
"""

from collections.abc import Sequence

from seqbatch.core import arguments
from seqbatch.inference.boundaries import Density, boundaries, require_information, spent


def futility_boundaries(
    information: Sequence[float], *, rule: str, alpha: float = 0.025, power: float = 0.9
) -> tuple[float, ...]:
    """Return the bound of the statistic below which stopping for futility is suggested.

    The chance to miss an effect, 1 - power, is spent over the looks by the same rule as the error.
    The effect is that at which the bounds for futility and success meet when all information is
    in: with it, the campaign succeeds with probability `power` even if every bound is obeyed.

    Parameters
    ----------
    information
        Fractions at all planned looks; the last is 1.
    rule, alpha
        See :func:`~seqbatch.inference.boundaries.spent`.
    power
        The chance of success at the effect that the campaign is for.

    Examples
    --------
    >>> looks = [1 / 3, 2 / 3, 1]
    >>> [round(b, 3) for b in futility_boundaries(looks, rule="obrien-fleming")]
    [-0.695, 1.002, 1.993]
    """
    from scipy.optimize import brentq

    times = require_information(information)
    miss = 1 - arguments.number("power", power, above=alpha, at_most=1 - 1e-6)
    success = boundaries(times, rule=rule, alpha=alpha)

    def excess(drift: float) -> float:
        return _obeyed(times, success, drift, rule, miss)[1] - power

    effect = float(brentq(excess, 0.01, 12, xtol=1e-9))
    return tuple(_obeyed(times, success, effect, rule, miss)[0])


def _obeyed(
    times: Sequence[float], success: Sequence[float], drift: float, rule: str, miss: float
) -> tuple[list[float], float]:
    """Return the bounds at an effect of this drift, and the chance of success if all are obeyed."""
    state, found, before, won = None, [], 0.0, 0.0
    for time, high in zip(times, success, strict=True):
        total = spent(time, rule=rule, alpha=miss)
        state = Density.first(time, drift) if state is None else state.carried(time)
        won += state.above(high)
        last = time == times[-1]
        # Never above the bound of success, and equal to it at the end.
        low = high if last else min(state.lower(total - before), high)
        found.append(low)
        before = total
        state = state.kept(low, high)
    return found, won

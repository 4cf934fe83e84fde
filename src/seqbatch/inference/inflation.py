"""What several looks cost where each of them uses the boundary of a single one."""

from collections.abc import Sequence

from seqbatch.inference.boundaries import Density, require_information


def error_of_looks(information: Sequence[float], *, bound: float) -> float:
    """Return the two-sided error of stopping at the first look beyond a bound, if nothing differs.

    Parameters
    ----------
    information
        t_1 < t_2 < ..., fractions of the information at the looks.
    bound
        The one of all looks, such as 1.96.

    Examples
    --------
    >>> round(error_of_looks([1.0], bound=1.959964), 4)
    0.05
    >>> round(error_of_looks([1 / 3, 2 / 3, 1], bound=1.959964), 3)
    0.107
    """
    state, crossed = None, 0.0
    for time in require_information(information):
        state = Density.first(time) if state is None else state.carried(time)
        crossed += state.above(bound) + state.below(-bound)
        state = state.kept(-bound, bound)
    return crossed

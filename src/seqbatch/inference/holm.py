"""Several questions at once, by Holm: at one look, and over several looks."""

from collections.abc import Sequence

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Floats
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.boundaries import boundaries


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return adjusted p-values: reject those below alpha, and all errors together stay below it.

    Parameters
    ----------
    p_values
        One for each question.

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


def group_sequential_holm(
    statistics: Floats, information: Sequence[float], *, rule: str, alpha: float = 0.025
) -> tuple[int | None, ...]:
    """Return the look, from 1, at which each hypothesis is rejected, or None (Maurer, Bretz 2013).

    Of h hypotheses still open each is tested with boundaries at alpha/h. A rejection leaves its
    part of alpha to the others, which are tested again at the same look.

    Parameters
    ----------
    statistics
        Standardised, shape (hypotheses, looks); large ones speak against the hypothesis.
    information
        Fractions at the looks so far.
    rule, alpha
        See :func:`~seqbatch.inference.boundaries.spent`.

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[2.0, 3.5], [1.0, 2.1], [0.0, 1.0]])
    >>> group_sequential_holm(z, [0.5, 1.0], rule="obrien-fleming")
    (2, None, None)
    """
    z = np.asarray(statistics, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] != len(information):
        rule_text = f"an array of shape (hypotheses, {len(information)})"
        raise InvalidArgumentError("statistics", rule_text, f"shape {z.shape}")
    bounds = {
        open_ones: boundaries(information, rule=rule, alpha=alpha / open_ones)
        for open_ones in range(1, len(z) + 1)
    }
    rejected: list[int | None] = [None] * len(z)
    for place in range(len(information)):
        while still := [one for one, when in enumerate(rejected) if when is None]:
            strongest = still[int(np.argmax(z[still, place]))]
            if z[strongest, place] < bounds[len(still)][place]:
                break
            rejected[strongest] = place + 1
    return tuple(rejected)

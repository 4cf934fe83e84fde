"""Parameters without features: near ties drawn on purpose.

Where actions differ by a constant alone, a long experiment loses only if its best two actions are
nearly alike, so nearly that few trials would have such parameters by chance. In a part of the
trials one action's parameter is therefore drawn close to another's (a single one close to zero),
and every trial counts by how likely its parameters are under the true law.
"""

import math

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import Floats, Integers
from seqbatch.planning.trials.starts import defended

#: The share of trials with a near tie.
CLOSE = 0.5
#: How near: standard deviations of the difference, beside that of independent parameters.
NEARNESS = 4.0 ** -np.arange(1, 10)
#: With more actions than these the best two are often close by themselves.
MOST_ACTIONS = 12


def with_near_ties(normals: Floats, random: Generator) -> tuple[Floats, Floats]:
    """Return parameters with near ties among them, and how much each trial counts.

    Parameters
    ----------
    normals
        Standard normals, shape (trials, models).
    random
        Draws which trials have a near tie, between which models, and how near.
    """
    trials, models = normals.shape
    if models > MOST_ACTIONS:
        return normals, np.ones(trials)
    close = random.random(trials) < CLOSE
    near = random.choice(NEARNESS, trials)
    drawn = normals.copy()
    if models == 1:
        drawn[close] *= near[close, None]
        ratio = _mean_ratio(drawn[:, 0], np.zeros(trials), 1.0)
        return drawn, defended(ratio, CLOSE)
    one, other = _pairs(models)
    rows = np.flatnonzero(close)
    place = random.integers(0, len(one), len(rows))
    moved, towards = one[place], other[place]
    step = math.sqrt(2) * near[rows] * normals[rows, moved]
    drawn[rows, moved] = normals[rows, towards] + step
    ratios = [
        _mean_ratio(drawn[:, i], drawn[:, j], math.sqrt(2)) for i, j in zip(one, other, strict=True)
    ]
    return drawn, defended(np.mean(ratios, axis=0), CLOSE)


def _pairs(models: int) -> tuple[Integers, Integers]:
    """Return all ordered pairs of different models."""
    one, other = np.divmod(np.arange(models**2), models)
    return one[one != other], other[one != other]


def _mean_ratio(value: Floats, centre: Floats, scale: float) -> Floats:
    """Return how much likelier the value is near the centre than where it is standard normal."""
    spread = scale * NEARNESS[:, None]
    exponent = (value**2 - ((value - centre) / spread) ** 2) / 2
    ratio: Floats = (np.exp(exponent) / spread).mean(axis=0)
    return ratio

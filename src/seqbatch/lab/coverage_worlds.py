"""Worlds in which coverage is measured: what actions bring, to whom, and what comes back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import pi, sqrt

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import AnyArray, Floats, Integers

ACTIONS, COLUMNS = 3, 4
#: Units of one cluster, where there are clusters.
CLUSTER = 5
Means = Callable[[Floats], Floats]
Draws = Callable[[Generator, Floats], Floats]


@dataclass(frozen=True)
class World:
    """What outcomes are like.

    Parameters
    ----------
    means
        The mean outcome of every action for each unit, shape (n, K).
    draws
        Draws outcomes with given means.
    lifts
        The true lifts of actions 1 and 2 over action 0, exactly.
    clustered
        Whether units come in clusters that share a part of their noise.
    """

    means: Means
    draws: Draws
    lifts: tuple[float, float]
    clustered: bool = False


def features(random: Generator, units: int) -> Floats:
    """Draw units: a constant, and standard normal columns."""
    return np.column_stack([np.ones(units), random.standard_normal((units, COLUMNS - 1))])


@cache
def panel() -> Floats:
    """Return units that stand for the population: a Sobol sequence, much evener than draws."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(COLUMNS - 1, seed=0).random_base2(12)
    return np.column_stack([np.ones(len(points)), ndtri(points)])


def _effects(base: Callable[[Floats], Floats], *effects: Callable[[Floats], Floats]) -> Means:
    """Return the means of a baseline and of effects added to it."""

    def means(x: Floats) -> Floats:
        return np.column_stack([base(x), *(base(x) + effect(x) for effect in effects)])

    return means


def _constant(size: float) -> Callable[[Floats], Floats]:
    return lambda x: np.full(len(x), size)


def _linear(x: Floats) -> Floats:
    return 1 + 0.5 * x[:, 1]


def _normal(random: Generator, means: Floats) -> Floats:
    return means + random.standard_normal(len(means))


def _student(random: Generator, means: Floats) -> Floats:
    return means + random.standard_t(3, len(means)) / sqrt(3)


def _binary(random: Generator, means: Floats) -> Floats:
    return (random.random(len(means)) < means).astype(np.float64)


def _spend(random: Generator, means: Floats) -> Floats:
    """Return nothing for most, and lognormal amounts with mean 1 for those who buy."""
    amounts = random.lognormal(-0.5, 1.0, len(means))
    return _binary(random, means) * amounts


def _clustered(random: Generator, means: Floats) -> Floats:
    shared = np.repeat(random.standard_normal(len(means) // CLUSTER + 1), CLUSTER)[: len(means)]
    return means + sqrt(0.6) * shared + sqrt(0.4) * random.standard_normal(len(means))


def _rates(level: float, step: float, slope: float) -> Means:
    """Return chances that differ by action and, the same for all, by a feature."""
    return _effects(
        lambda x: level + slope * np.tanh(x[:, 1]), _constant(step), _constant(2 * step)
    )


_mixed = _effects(_linear, lambda x: 0.5 * x[:, 1], lambda x: 0.2 + 0.5 * x[:, 2])
WORLDS = {
    "no effect": World(_effects(_linear, _constant(0), _constant(0)), _normal, (0, 0)),
    "strong": World(_effects(_linear, _constant(0.3), _constant(0.6)), _normal, (0.3, 0.6)),
    "heterogeneous": World(_mixed, _normal, (0, 0.2)),
    "heavy tails": World(_mixed, _student, (0, 0.2)),
    "spend": World(_rates(0.2, 0.03, 0.05), _spend, (0.03, 0.06)),
    "binary 5%": World(_rates(0.05, 0.01, 0.02), _binary, (0.01, 0.02)),
    "misspecified": World(
        _effects(
            lambda x: np.sin(2 * x[:, 1]),
            lambda x: 0.1 + 0.5 * (x[:, 1] ** 2 - 1),
            lambda x: 0.4 * np.abs(x[:, 2]),
        ),
        _normal,
        (0.1, 0.4 * sqrt(2 / pi)),
    ),
    "clusters of five": World(_mixed, _clustered, (0, 0.2), clustered=True),
}


def lost(random: Generator, kind: str, x: Floats, actions: Integers) -> AnyArray:
    """Say whose outcomes do not come back: a fifth, of anybody or by feature and action."""
    if kind == "nobody":
        return np.zeros(len(x), dtype=bool)
    if kind == "anybody":
        return random.random(len(x)) < 0.2
    chance = 1 / (1 + np.exp(1.9 - 1.0 * x[:, 1] * (1 - actions) - 0.3 * actions))
    return random.random(len(x)) < chance

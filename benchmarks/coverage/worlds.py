"""The worlds and simulated campaigns of the coverage study."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import pi, sqrt

import numpy as np
from numpy.random import Generator

from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.inference import PlanOfShares, Rows, plan_of_shares
from seqbatch.inference.doubly_robust_scores import Evidence, OutcomeModel

# ----------------------------------------------------------------------
# Worlds in which coverage is measured: what actions bring, to whom, and what comes back.


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


# ----------------------------------------------------------------------
# Campaigns simulated for the sake of their intervals, by the very code that users run.


#: How units are divided among waves.
SIZES = {2: (0.3, 0.7), 3: (0.2, 0.3, 0.5), 5: (0.1, 0.15, 0.2, 0.25, 0.3)}
POLICIES = ("greedy", "UCB", "Thompson")
#: Draws of the parameters that Thompson sampling's probabilities come from.
DRAWS = 32


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting in which coverage is measured.

    Parameters
    ----------
    policy, world
        Names.
    waves, units
        M, and all units together.
    randomised, floor
        h and f.
    missing
        Whose outcomes do not come back: ``"nobody"``, ``"anybody"`` (a fifth) or ``"by feature"``.
    """

    policy: str = "greedy"
    world: str = "no effect"
    waves: int = 3
    units: int = 3_000
    randomised: float = 0.1
    floor: float = 0.02
    missing: str = "anybody"

    @property
    def sizes(self) -> list[int]:
        """How many units each wave has."""
        return [round(share * self.units) for share in SIZES[self.waves]]

    @property
    def plan(self) -> PlanOfShares:
        """The plan of shares that such a campaign would fix."""
        return plan_of_shares(
            self.sizes,
            actions=ACTIONS,
            randomised=self.randomised,
            floor=self.floor,
            policy="thompson" if self.policy == "Thompson" else "greedy",
        )

    def describe(self) -> str:
        """Return the cell in words."""
        return (
            f"{self.world}, {self.policy}, M = {self.waves}, {self.units:,} units, "
            f"randomised {self.randomised:g}, floor {self.floor:g}, missing {self.missing}"
        )


@dataclass(frozen=True, eq=False)
class Simulated:
    """A campaign that was simulated.

    Parameters
    ----------
    waves
        Its units.
    rules
        What gave each wave its probabilities: a function from features to them.
    """

    waves: list[Rows]
    rules: list[Callable[[Floats], Floats]]


def simulate_campaign(cell: Cell, random: Generator) -> Simulated:
    """Run a campaign: the first wave at random, each later one by all outcomes before it."""
    world = WORLDS[cell.world]
    evidence = Evidence.zero(ACTIONS, COLUMNS)
    waves: list[Rows] = []
    rules: list[Callable[[Floats], Floats]] = []
    for number, size in enumerate(cell.sizes):
        rules.append(_rule(cell, evidence, random) if number else _uniform)
        waves.append(_wave(cell, world, rules[-1], size, random))
        if world.clustered:
            names = np.arange(size) // CLUSTER + number * cell.units
            waves[-1] = replace(waves[-1], clusters=names)
        evidence = evidence.with_rows(waves[-1])
    return Simulated(waves, rules)


def _uniform(x: Floats) -> Floats:
    return np.full((len(x), ACTIONS), 1 / ACTIONS)


def _rule(cell: Cell, evidence: Evidence, random: Generator) -> Callable[[Floats], Floats]:
    """Return what the policy makes of the outcomes so far."""
    model = OutcomeModel.fitted(evidence)
    b = model.coefficients[None]
    if cell.policy == "Thompson":
        roots = np.linalg.cholesky(model.inverse)
        b = b + np.einsum("kpq,dkq->dkp", roots, random.standard_normal((DRAWS, ACTIONS, COLUMNS)))
    h, f = cell.randomised, cell.floor

    def probabilities(x: Floats) -> Floats:
        scores = (x @ b.reshape(-1, COLUMNS).T).reshape(len(x), -1, ACTIONS)
        if cell.policy == "UCB":
            width = np.sqrt(np.einsum("np,kpq,nq->nk", x, model.inverse, x, optimize=True))
            scores = scores + width[:, None, :]
        best = scores.argmax(axis=2)
        shares = np.stack([(best == action).mean(axis=1) for action in range(ACTIONS)], axis=1)
        mixed: Floats = h / ACTIONS + (1 - h) * (f + (1 - ACTIONS * f) * shares)
        return mixed

    return probabilities


def _wave(
    cell: Cell, world: World, rule: Callable[[Floats], Floats], size: int, random: Generator
) -> Rows:
    x = features(random, size)
    p = rule(x)
    actions = (random.random(size)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    actions = np.minimum(actions, ACTIONS - 1)
    outcomes = world.draws(random, world.means(x)[np.arange(size), actions])
    outcomes[lost(random, cell.missing, x, actions)] = np.nan
    return Rows.of(x, actions, p, outcomes)

"""Worlds of the quality study: units, and the outcomes that each would have under every action."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from zlib import crc32

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch import datasets
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.datasets import LoggedExperiment
from seqbatch.environments import (
    BLOCK,
    Delayed,
    Drifting,
    Environment,
    Gaussian,
    GeneralizedLinear,
    Sphere,
)

# ----------------------------------------------------------------------
# Units and worlds.


@dataclass(frozen=True, eq=False)
class Units:
    """The units of one campaign, in the order in which they come.

    Parameters
    ----------
    rows
        A constant and the standardised features, shape (T, p).
    means
        The mean outcome under each action, shape (T, K).
    outcomes
        The outcome under each action, shape (T, K).
    delay
        How many units later each unit's outcome is known, shape (T,); None if at once. An outcome
        that is not known as its wave ends is lost, to all methods.
    """

    rows: Floats
    means: Floats
    outcomes: Floats
    delay: Floats | None = None

    def known(self, wave: slice) -> Bools:
        """Return which outcomes of a wave are known as it ends."""
        if self.delay is None:
            return np.ones(wave.stop - wave.start, dtype=np.bool_)
        known: Bools = np.arange(wave.start, wave.stop) + 1 + self.delay[wave] <= wave.stop
        return known

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def linear(self) -> Floats:
        """What the best linear models of each action's mean predict."""
        weights = np.linalg.lstsq(self.rows, self.means, rcond=None)[0]
        predicted: Floats = self.rows @ weights
        return predicted

    @property
    def noise(self) -> float:
        """The standard deviation of outcomes around the best linear models."""
        return float(np.sqrt(np.mean((self.outcomes - self.linear) ** 2)))

    @property
    def effect(self) -> float:
        """What the rule of the best linear models gains a unit over a random action."""
        chosen = self.linear.argmax(axis=1)
        return float((self.means[np.arange(len(self)), chosen] - self.means.mean(axis=1)).mean())

    def score(self, actions: Integers) -> float:
        """Return the reward of a campaign: 0 for uniformly random actions, 100 for the oracle."""
        earned = self.means[np.arange(len(self)), actions]
        nothing, best = self.means.mean(axis=1), self.means.max(axis=1)
        return float(100 * (earned - nothing).sum() / (best - nothing).sum())


@dataclass(frozen=True)
class World:
    """A law from which units are drawn.

    Parameters
    ----------
    name
        Its name on the page.
    units, actions
        T and K.
    make
        Draws the units.
    yes_or_no
        Whether outcomes are 0 or 1.
    """

    name: str
    units: int
    actions: int
    make: Callable[[Generator, "World"], Units]
    yes_or_no: bool = True

    def draw(self, seed: int, number: int) -> Units:
        """Return the units of the campaign with this number."""
        key = crc32(self.name.encode())
        return self.make(np.random.default_rng(SeedSequence(seed, spawn_key=(key, number))), self)


def standardised(features: Floats) -> Floats:
    """Return the features that vary, with mean 0 and variance 1, after a constant."""
    varied = features[:, features.std(axis=0) > 1e-9]
    scaled = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    return np.column_stack([np.ones(len(features)), scaled])


def _chances(random: Generator, rows: Floats, means: Floats) -> Units:
    """Draw yes or no; one draw for a unit, whatever its action."""
    drawn = random.random((len(rows), 1)) < means
    return Units(rows, means, drawn.astype(np.float64))


def _noisy(rows: Floats, means: Floats, noise: Floats) -> Units:
    return Units(rows, means, means + noise[:, None])


def _normal(random: Generator, units: int, p: int) -> Floats:
    return np.column_stack([np.ones(units), random.standard_normal((units, p - 1))])


# ----------------------------------------------------------------------
# Tables with classes: an action is a guess of the class, and a right one earns 1.


#: Rows that are kept of a larger file.
POPULATION = 60_000
Table = tuple[Floats, Integers]


@cache
def _table(name: str) -> Table:
    if name in ("Covertype", "Mushroom"):
        data = datasets.covertype() if name == "Covertype" else datasets.mushroom()
        kept = np.random.default_rng(0).permutation(len(data))[:POPULATION]
        return data.features[kept], data.labels[kept]
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    load = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}[name]
    features, labels = load(return_X_y=True)
    return np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.int64)


def _classes(random: Generator, world: World) -> Units:
    features, labels = _table(world.name)
    order = random.permutation(len(labels))[: world.units]
    right = np.eye(world.actions)[labels[order]]
    return Units(standardised(features[order]), right, right)


# ----------------------------------------------------------------------
# Hillstrom's customers: a logistic model of each e-mail's outcome is the truth.


@cache
def hillstrom(outcome: str) -> LoggedExperiment:
    """Return the log, with standardised features."""
    log = datasets.hillstrom(outcome)
    return replace(log, features=standardised(log.features))


@cache
def chances(outcome: str) -> Floats:
    """Return each customer's chance of the outcome under each e-mail, by logistic models."""
    from sklearn.linear_model import LogisticRegression

    log = hillstrom(outcome)
    means = []
    for arm in range(len(log.names)):
        own = log.actions == arm
        model = LogisticRegression(max_iter=1_000).fit(log.features[own, 1:], log.rewards[own])
        means.append(model.predict_proba(log.features[:, 1:])[:, 1])
    return np.column_stack(means)


def _customers(random: Generator, world: World) -> Units:
    outcome = "visit" if "visits" in world.name else "conversion"
    means = chances(outcome)
    order = random.permutation(len(means))[: world.units]
    return _chances(random, hillstrom(outcome).features[order], means[order])


# ----------------------------------------------------------------------
# Made worlds. Noise is 1, and an action's mean has a standard deviation of about 0.5 over units.


@dataclass(frozen=True)
class Linear:
    """Linear means with p coefficients for each action, a constant included.

    Parameters
    ----------
    p
        The length of a row.
    noise
        ``"normal"``, or ``"heavy"``: Student's t with 3 degrees of freedom and variance 1.
    used
        How many features have a coefficient, or all.
    shock
        The standard deviation of the level of each seventh of the campaign.
    """

    p: int
    noise: str = "normal"
    used: int | None = None
    shock: float = 0.0

    def __call__(self, random: Generator, world: World) -> Units:
        """Draw the units."""
        rows = _normal(random, world.units, self.p)
        used = self.used or self.p
        theta = np.zeros((self.p, world.actions))
        theta[:used] = random.standard_normal((used, world.actions)) * 0.5 / np.sqrt(used)
        if self.noise == "heavy":
            noise = random.standard_t(3, world.units) / np.sqrt(3)
        else:
            noise = random.standard_normal(world.units)
        level = self.shock * random.standard_normal(7)
        return _noisy(rows, rows @ theta, noise + level[7 * np.arange(world.units) // world.units])


@dataclass(frozen=True)
class Logistic:
    """Yes or no: a rate, a part that all actions share, and each action's deviation from it."""

    rate: float
    common: float = 0.5
    own: float = 0.5
    p: int = 11

    def __call__(self, random: Generator, world: World) -> Units:
        """Draw the units."""
        rows = _normal(random, world.units, self.p)
        scale = np.sqrt(self.p)
        shared = self.common / scale * random.standard_normal((self.p, 1))
        theta = shared + self.own / scale * random.standard_normal((self.p, world.actions))
        theta[0] += np.log(self.rate / (1 - self.rate))
        return _chances(random, rows, 1 / (1 + np.exp(-rows @ theta)))


def _steps(random: Generator, world: World) -> Units:
    """Each action has three steps, up or down, at random places of random features."""
    rows = _normal(random, world.units, 11)
    scores = np.full((world.units, world.actions), np.log(0.3 / 0.7))
    for action in range(world.actions):
        for feature in random.choice(np.arange(1, 11), 3, replace=False):
            height, place = random.normal(0, 0.8), random.normal(0, 0.7)
            scores[:, action] += height * np.sign(rows[:, feature] - place)
    return _chances(random, rows, 1 / (1 + np.exp(-scores)))


def _interactions(random: Generator, world: World) -> Units:
    """Each action has three products of features, and a small linear part."""
    rows = _normal(random, world.units, 11)
    scores = rows @ (0.1 * random.standard_normal((11, world.actions))) + np.log(0.3 / 0.7)
    for action in range(world.actions):
        for _ in range(3):
            first, second = random.choice(np.arange(1, 11), 2, replace=False)
            scores[:, action] += random.normal(0, 0.6) * rows[:, first] * rows[:, second]
    return _chances(random, rows, 1 / (1 + np.exp(-scores)))


def _counts(random: Generator, world: World) -> Units:
    """Counts with a mean of about 2, whose logarithm is linear."""
    rows = _normal(random, world.units, 9)
    scale = np.sqrt(9)
    shared = 0.3 / scale * random.standard_normal((9, 1))
    theta = shared + 0.3 / scale * random.standard_normal((9, world.actions))
    means = 2 * np.exp(rows @ theta)
    return Units(rows, means, random.poisson(means).astype(np.float64))


@dataclass(frozen=True)
class Simulated:
    """Units of an environment of the package, in the block layout."""

    environment: Environment

    def __call__(self, random: Generator, world: World) -> Units:
        """Draw the units."""
        instance = self.environment.instance(SeedSequence(int(random.integers(2**62))))
        blocks = [instance.block(index) for index in range(-(-world.units // BLOCK))]
        contexts, means = (
            np.concatenate([getattr(block, name) for block in blocks])[: world.units]
            for name in ("contexts", "means")
        )
        noise = [block.noise if block.noise.ndim > 1 else block.noise[:, None] for block in blocks]
        delays = [block.delay for block in blocks if block.delay is not None]
        delay = np.concatenate(delays)[: world.units] if delays else None
        outcomes = means + np.concatenate(noise)[: world.units]
        return Units(standardised(contexts), means, outcomes, delay)


# ----------------------------------------------------------------------
# The table of worlds.


def _named(*worlds: World) -> Mapping[str, World]:
    return {world.name: world for world in worlds}


#: Constants of policies may be chosen on these.
SIXTEEN = _named(
    World("Covertype", 10_000, 7, _classes),
    World("Mushroom", 8_124, 2, _classes),
    World("digits", 1_797, 10, _classes),
    World("breast cancer", 569, 2, _classes),
    World("wine", 178, 3, _classes),
    World("Hillstrom visits", 20_000, 3, _customers),
    World("Hillstrom conversions", 20_000, 3, _customers),
    World("linear p=5 K=3 T=2,000", 2_000, 3, Linear(5), yes_or_no=False),
    World("linear p=20 K=3 T=20,000", 20_000, 3, Linear(20), yes_or_no=False),
    World("linear p=5 K=10 T=20,000", 20_000, 10, Linear(5), yes_or_no=False),
    World("linear p=20 K=10 T=2,000", 2_000, 10, Linear(20), yes_or_no=False),
    World("logistic 2%", 20_000, 3, Logistic(0.02)),
    World("logistic 20%", 6_000, 3, Logistic(0.2)),
    World("actions alike", 6_000, 5, Logistic(0.2, common=0.7, own=0.15)),
    World("steps", 10_000, 3, _steps),
    World("interactions", 10_000, 3, _interactions),
)
PROBIT = GeneralizedLinear(
    Gaussian(dim=5, actions=3, layout="block"), link="probit", intercept=-1.0
)
LATE = Delayed(Sphere(dim=10, actions=4, layout="block"), mean=300.0, missing=0.2)
DRIFTING = Drifting(Gaussian(dim=5, actions=3, layout="block"), period=6_000, drift=0.5, season=0.5)
#: These confirm what was chosen; nothing may be chosen on them.
CONFIRMATION = _named(
    World("linear p=10 K=5 T=6,000", 6_000, 5, Linear(10), yes_or_no=False),
    World("logistic 5% K=4", 12_000, 4, Logistic(0.05)),
    World("counts", 4_000, 4, _counts, yes_or_no=False),
    World("heavy tails", 6_000, 4, Linear(10, noise="heavy"), yes_or_no=False),
    World("shocks", 6_000, 3, Linear(10, shock=0.5), yes_or_no=False),
    World("sparse", 6_000, 3, Linear(31, used=3), yes_or_no=False),
    World("probit", 6_000, 3, Simulated(PROBIT)),
    World("late and missing", 6_000, 4, Simulated(LATE), yes_or_no=False),
    World("drift and seasons", 6_000, 3, Simulated(DRIFTING), yes_or_no=False),
)
#: Two tiny worlds, for tests.
TINY = _named(
    World("tiny linear", 140, 2, Linear(3), yes_or_no=False),
    World("tiny logistic", 210, 3, Logistic(0.4, p=3)),
)
WORLDS = {**SIXTEEN, **CONFIRMATION, **TINY}

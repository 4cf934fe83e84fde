"""Campaigns without features, played by sums: every policy meets the same units and outcomes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from seqbatch.core import Contexts, Problem, Statistics
from seqbatch.core.arrays import Floats
from seqbatch.policies.base import BasePolicy, State


@dataclass(frozen=True)
class World:
    """A truth: every action's mean, and running sums of the outcomes that its units will have."""

    means: Floats
    sums: Floats
    squares: Floats
    draws: Floats

    @classmethod
    def normal(cls, random: Generator, units: int, means: Floats) -> "World":
        """Return outcomes with standard deviation 1."""
        return cls.of(random, means, means + random.standard_normal((units, len(means))))

    @classmethod
    def yes_no(cls, random: Generator, units: int, rates: Floats) -> "World":
        """Return outcomes of 0 and 1."""
        return cls.of(random, rates, (random.random((units, len(rates))) < rates).astype(float))

    @classmethod
    def of(cls, random: Generator, means: Floats, outcomes: Floats) -> "World":
        """Return the sums over each action's first 0, 1, 2, ... outcomes."""
        none = np.zeros((1, len(means)))
        return cls(
            means,
            np.concatenate([none, outcomes.cumsum(axis=0)]),
            np.concatenate([none, (outcomes**2).cumsum(axis=0)]),
            random.random(len(outcomes)),
        )


@dataclass(frozen=True)
class Loss:
    """What a policy lost per unit of the campaign, and by the action it would choose at the end."""

    regret: float
    simple: float


def play(policy: BasePolicy, sizes: Sequence[int], world: World, *, ridge: float) -> Loss:
    """Play a campaign; the final choice is the highest posterior mean, for every policy alike."""
    K = len(world.means)
    ends = np.cumsum(sizes)
    problem = Problem(ends=tuple(ends.tolist()), actions=K, dim=1, layout="block")
    state, used = policy.begin(problem), np.zeros(K, dtype=np.int64)
    places = np.arange(K)
    for end, size in zip(ends, sizes, strict=True):
        bounds = np.cumsum(chances(policy, state, problem))
        drawn = world.draws[end - size : end] * bounds[-1]
        taken = np.minimum(np.searchsorted(bounds, drawn, side="right"), K - 1)
        given = np.bincount(taken, minlength=K)
        after = used + given
        wave = Statistics(
            gram=given.astype(float)[:, None, None],
            moment=(world.sums[after, places] - world.sums[used, places])[:, None],
            squares=world.squares[after, places] - world.squares[used, places],
            count=given,
        )
        state, used = policy.close(policy.absorb(state, 0, wave)), after
    missed = world.means.max() - world.means
    best = int((world.sums[used, places] / (used + ridge)).argmax())
    return Loss(float(used @ missed) / problem.units, float(missed[best]))


def chances(policy: BasePolicy, state: State, problem: Problem) -> Floats:
    """Return the probability of each action in the open wave, the same for all units."""
    one = Contexts.of(np.ones((1, 1)), problem)
    decided = policy.rule(state).decide(one, np.zeros(1), np.zeros(1, dtype=np.int64))
    found: Floats = decided.probabilities[0]
    return found


#: Makes the world of a run from its random numbers.
Maker = Callable[[Generator], World]


def losses(
    policies: Mapping[str, BasePolicy],
    sizes: Sequence[int],
    make: Maker,
    *,
    ridge: float,
    runs: int,
    seed: int,
) -> dict[str, tuple[Floats, Floats]]:
    """Return each policy's regret and simple regret in every run, all in the same worlds."""
    found: dict[str, list[Loss]] = {name: [] for name in policies}
    for run in range(runs):
        world = make(np.random.default_rng([seed, run]))
        for name, policy in policies.items():
            found[name].append(play(policy, sizes, world, ridge=ridge))
    return {
        name: (np.array([one.regret for one in each]), np.array([one.simple for one in each]))
        for name, each in found.items()
    }


def equal(units: int, waves: int) -> list[int]:
    """Return waves of equal sizes."""
    return [units // waves] * (waves - 1) + [units - units // waves * (waves - 1)]


def doubling(units: int, waves: int) -> list[int]:
    """Return waves that double in size.

    >>> doubling(700, 3)
    [100, 200, 400]
    """
    first = units // (2**waves - 1)
    sizes = [first * 2**wave for wave in range(waves)]
    return [*sizes[:-1], units - sum(sizes[:-1])]

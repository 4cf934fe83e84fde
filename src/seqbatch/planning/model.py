"""The model that a plan assumes: Gaussian contexts, parameters drawn from a normal law.

Contexts are Gaussian and whitened; every coordinate of the true parameters is drawn from N(0, s^2),
with s such that the best action's mean reward exceeds a random one's by `effect`, on average over
units and parameters. Before anything is known a control is like a random action, so the same
number is the gain over control.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import branch, generator
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.block import BlockEnsemble
from seqbatch.planning.trials.conduct import Conduct
from seqbatch.planning.trials.draws import Draws
from seqbatch.planning.trials.greedy import Past
from seqbatch.planning.trials.near_ties import with_near_ties
from seqbatch.planning.trials.posterior import drawn
from seqbatch.planning.trials.shared import SharedEnsemble
from seqbatch.planning.trials.thinned import ThinnedTrial

#: Places in the seed tree that the ensembles do not use.
PARAMETERS, TIES, COMMON = 10, 14, 19
#: Where rows are given: points for each parameter, and at most.
POINTS_A_PARAMETER, MOST_POINTS = 8, 2_048


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A Gaussian model whose parameters are still unknown.

    Parameters
    ----------
    layout
        ``"shared"``: a vector of d numbers for each action. ``"block"``: a row of features for each
        unit, behind a constant.
    actions
        K.
    dim
        The length of one parameter vector: d, or 1 + p.
    scenarios
        Pairs of effect and noise, all equally plausible.
    kappa
        The smallest eigenvalue of the contexts' covariance divided by its largest. It enters the
        theorem's rate; least squares on whitened contexts does not depend on it.
    rows
        Whitened rows of features to take units from, shape (n, p); None draws normals.
    past
        What is known already, in whitened coordinates.
    conduct
        What happens beside the policy's own choices: chance, lost and late outcomes.
    """

    layout: Literal["shared", "block"]
    actions: int
    dim: int
    scenarios: tuple[tuple[float, float], ...]
    kappa: float = 1.0
    rows: Floats | None = None
    past: Past | None = None
    conduct: Conduct = field(default_factory=Conduct)

    @property
    def effect(self) -> float:
        """The mean effect over the scenarios."""
        return float(np.mean([effect for effect, _ in self.scenarios]))

    def spread(self, effect: float) -> float:
        """Return s, the standard deviation of every coordinate, for a mean gain of `effect`."""
        length = _mean_length(self.dim, constant=self.layout == "block")
        return effect / (theory.expected_maximum(self.actions) * length)

    def ensemble(self, trials: int, *, seed: int, points: int = 512) -> Trials:
        """Return trials whose parameters are drawn from the law, scenario by scenario."""
        place = SeedSequence(seed)
        theta, noise, weight = self._parameters(trials, place)
        made: Trials
        if self.layout == "shared":
            made = SharedEnsemble(
                theta[:, 0], self.actions, noise, Draws(place), self.past, self.conduct
            )
        else:
            # Without features all points are one.
            used = points if self.dim > 1 else 1
            if self.rows is not None:
                used = min(MOST_POINTS, max(points, POINTS_A_PARAMETER * self.actions * self.dim))
            made = BlockEnsemble(
                theta, noise, Draws(place), used, self.past, self.conduct, rows=self.rows
            )
        if self.past is not None:
            return made
        # The trials' gain, which grows with the parameters, becomes the stated one exactly.
        gain = float((weight * made.rates([1]).uniform).mean())
        scale = self.effect / gain
        scaled = replace(made, theta=made.theta * scale, gain=self.effect, weight=weight)
        return replace(scaled, scale=scale) if isinstance(scaled, BlockEnsemble) else scaled

    def spreads(self, trials: int) -> Floats:
        """Return the standard deviation of the coordinates in each trial, scenario by scenario."""
        effects = [effect for effect, _ in self.scenarios]
        return np.array([self.spread(effects[t % len(effects)]) for t in range(trials)])

    def thinned(self, trials: int, *, seed: int) -> list[ThinnedTrial]:
        """Return trials to run any policy on, with normal contexts or the given rows."""
        theta, noise, weight = self._parameters(trials, SeedSequence(seed))
        contexts = self._features if self.layout == "block" else self._vectors
        return [
            ThinnedTrial(
                one, float(level), self.actions, self.layout, contexts, self.conduct, float(counts)
            )
            for one, level, counts in zip(theta, noise, weight, strict=True)
        ]

    def _parameters(self, trials: int, seed: SeedSequence) -> tuple[Floats, Floats, Floats]:
        """Return parameters (trials, models, dim), noise levels and weights (trials,)."""
        models = 1 if self.layout == "shared" else self.actions
        levels = [noise for _, noise in self.scenarios]
        noise = np.array([levels[t % len(levels)] for t in range(trials)])
        spread = self.spreads(trials)[:, None, None]
        normals = generator(branch(seed, PARAMETERS)).standard_normal((trials, models, self.dim))
        weight = np.ones(trials)
        if self.past is not None:
            shared = generator(branch(seed, COMMON)).standard_normal((trials, self.dim))
            given = drawn(self.past, self.spreads(trials), noise, normals, shared)
            return given, noise, weight
        if self.dim == 1:
            closer, weight = with_near_ties(normals[..., 0], generator(branch(seed, TIES)))
            normals = closer[..., None]
        return spread * normals, noise, weight

    def _features(self, random: Generator, units: int) -> Floats:
        if self.rows is None:
            features = random.standard_normal((units, self.dim - 1))
        else:
            features = self.rows[random.integers(0, len(self.rows), units)]
        return np.concatenate([np.ones((units, 1)), features], axis=1)

    def _vectors(self, random: Generator, units: int) -> Floats:
        return random.standard_normal((units, self.actions, self.dim))


@cache
def _mean_length(dim: int, *, constant: bool) -> float:
    """Return the mean length of a standard normal vector, or of one behind a constant 1.

    >>> round(_mean_length(1, constant=False), 4)
    0.7979
    """
    from scipy.special import gammaincinv

    freedom = dim - 1 if constant else dim
    if freedom == 0:
        return 1.0
    # The mean over slices of equal probability, each taken at its middle.
    shares = (np.arange(20_000) + 0.5) / 20_000
    squares = 2 * gammaincinv(freedom / 2, shares)
    return float(np.sqrt(squares + (1.0 if constant else 0.0)).mean())

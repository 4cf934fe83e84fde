"""The planner's model: Gaussian contexts, and parameters with a normal prior.

Contexts are Gaussian and whitened. Every coordinate of the true parameters is drawn from N(0, s^2);
s is chosen such that the best action's mean reward exceeds a random action's by `effect`, averaged
over units and parameters. A priori, control is like a random action, so `effect` is also the gain
over control.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.random import Generator, SeedSequence

from seqbatch import theory
from seqbatch.core.arrays import Floats
from seqbatch.environments.base import branch, generator
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.conditions import Conduct
from seqbatch.planning.trials.draws import KeptDraws, parameters_given, with_near_ties
from seqbatch.planning.trials.exploration_sampling import ChoiceEnsemble
from seqbatch.planning.trials.greedy_block_model import BlockEnsemble
from seqbatch.planning.trials.greedy_runs import KnownPast
from seqbatch.planning.trials.greedy_shared_model import SharedEnsemble
from seqbatch.planning.trials.thinned_units import ThinnedTrial

#: Branches of the seed tree that the ensembles do not use.
PARAMETERS, TIES, COMMON = 10, 14, 19
#: A scenario gets a stratum of trials for each 1/LIKELY of probability.
LIKELY = 8
#: With given rows: points per parameter, and their maximum number.
POINTS_A_PARAMETER, MOST_POINTS = 16, 2_048


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A Gaussian model whose parameters are unknown.

    Parameters
    ----------
    layout
        ``"shared"``: one vector of d numbers per action. ``"block"``: one row of features per unit,
        after a constant.
    actions
        K.
    dim
        The length of one parameter vector: d, or 1 + p.
    scenarios
        Pairs of effect and noise.
    weights
        The probability of each scenario; they sum to 1. By default all are equally likely.
    kappa
        The smallest eigenvalue of the contexts' covariance divided by its largest. It enters the
        theorem's rate; least squares on whitened contexts does not depend on it.
    rows
        Whitened rows of features from which units are drawn, shape (n, p); None for normals.
    past
        The data so far, in whitened coordinates.
    conduct
        How the experiment is run besides the policy: randomisation, missing and late outcomes.
    """

    layout: Literal["shared", "block"]
    actions: int
    dim: int
    scenarios: tuple[tuple[float, float], ...]
    weights: tuple[float, ...] = ()
    kappa: float = 1.0
    rows: Floats | None = None
    past: KnownPast | None = None
    conduct: Conduct = field(default_factory=Conduct)

    def __post_init__(self) -> None:
        """Give every scenario a weight."""
        number = len(self.scenarios)
        object.__setattr__(self, "weights", self.weights or (1 / number,) * number)
        fits = len(self.weights) == number and min(self.weights) > 0
        if not fits or not math.isclose(sum(self.weights), 1.0):
            raise InvalidArgumentError(
                "weights", f"positive, one per scenario ({number}), with sum 1", self.weights
            )

    @property
    def effect(self) -> float:
        """The mean effect over the scenarios."""
        return self.mean([effect for effect, _ in self.scenarios])

    @property
    def middle(self) -> float:
        """The middle effect, the geometric mean: the guess at the centre of the prior."""
        return math.exp(self.mean([math.log(effect) for effect, _ in self.scenarios]))

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean of one value per scenario."""
        return float(np.dot(self.weights, values))

    def spread(self, effect: float) -> float:
        """Return s, the standard deviation of every coordinate, for a mean gain of `effect`."""
        length = _mean_length(self.dim, constant=self.layout == "block")
        return effect / (theory.expected_maximum(self.actions) * length)

    def ensemble(
        self, trials: int, *, seed: int, points: int = 512, draws: KeptDraws | None = None
    ) -> Trials:
        """Return trials with parameters drawn from the prior, scenario by scenario.

        All strata have the same number of trials, at least two; `trials` is rounded up accordingly.
        You may pass the seed's draws to reuse them.
        """
        strata = self.strata
        trials = len(strata) * max(2, -(-trials // len(strata)))
        place = SeedSequence(seed)
        theta, noise, weight = self._parameters(trials, place)
        draws = draws or KeptDraws(place)
        penalty = (noise / self.spreads(trials)) ** 2
        ensemble: Trials
        if self.conduct.purpose == "choose":
            ensemble = ChoiceEnsemble(
                theta[..., 0], noise, draws, self.conduct, weight=weight, strata=strata
            )
        elif self.layout == "shared":
            ensemble = SharedEnsemble(
                theta[:, 0], self.actions, noise, draws, self.past, self.conduct,
                weight=weight, strata=strata, penalty=penalty,
            )  # fmt: skip
        else:
            # Without features all points are the same.
            used = points if self.dim > 1 else 1
            if self.rows is not None:
                used = min(MOST_POINTS, max(points, POINTS_A_PARAMETER * self.actions * self.dim))
            ensemble = BlockEnsemble(
                theta, noise, draws, used, self.past, self.conduct,
                weight=weight, rows=self.rows, strata=strata, penalty=penalty,
            )  # fmt: skip
        return ensemble if self.past is not None else self._scaled(ensemble)

    def _scaled(self, made: Trials) -> Trials:
        """Scale the parameters of the trials to make their gain exactly the stated one."""
        effects = self._by_stratum([effect for effect, _ in self.scenarios])
        free = replace(made, conduct=Conduct(actions=self.actions))
        stated = effects * self._stratum_weights
        scale = np.resize(stated / self._gains(free), made.trials)
        if isinstance(made, BlockEnsemble):
            theta = made.theta * scale[:, None, None]
            scaled: Trials = replace(made, theta=theta, gain=stated, scale=scale)
        else:
            scaled = replace(made, theta=made.theta * scale[:, None], gain=stated)
        # The effect is stated for units that may get every action; other units gain less.
        restricted = self.conduct.restricted
        return replace(scaled, gain=self._gains(scaled)) if restricted else scaled

    def _gains(self, made: Trials) -> Floats:
        """Return each stratum's part of the gain of a perfect assignment over a random one."""
        number = len(self.strata)
        counted: Floats = made.weight * made.rates([1]).uniform
        gains: Floats = counted.reshape(-1, number).mean(axis=0) / number
        return gains

    @property
    def strata(self) -> tuple[int, ...]:
        """The scenario numbers of successive trials: likely scenarios occur more often."""
        number = max(len(self.weights), LIKELY)
        times = [max(1, round(weight * number)) for weight in self.weights]
        shared = math.gcd(*times)
        return tuple(place for place, copies in enumerate(times) for _ in range(copies // shared))

    @property
    def _stratum_weights(self) -> Floats:
        """The probability of each stratum: a scenario's weight divided by its number of strata."""
        copies = np.bincount(self.strata)
        return self._by_stratum(np.array(self.weights) / copies)

    def _by_stratum(self, values: Sequence[float] | Floats) -> Floats:
        """Return the value of each stratum's scenario."""
        return np.asarray(values, dtype=np.float64)[list(self.strata)]

    def spreads(self, trials: int) -> Floats:
        """Return the standard deviation of the coordinates in each trial."""
        spreads = [self.spread(effect) for effect, _ in self.scenarios]
        return np.resize(self._by_stratum(spreads), trials)

    def thinned(self, trials: int, *, seed: int) -> list[ThinnedTrial]:
        """Return trials for running any policy, with normal contexts or the given rows.

        All strata have the same number of trials; `trials` is rounded up accordingly.
        """
        trials = len(self.strata) * -(-trials // len(self.strata))
        theta, noise, weight = self._parameters(trials, SeedSequence(seed))
        contexts = self._features if self.layout == "block" else self._vectors
        penalty = (noise / self.spreads(trials)) ** 2
        return [
            ThinnedTrial(
                one, float(level), self.actions, self.layout, contexts, self.conduct,
                float(counts), float(ridge),
            )
            for one, level, counts, ridge in zip(theta, noise, weight, penalty, strict=True)
        ]  # fmt: skip

    def _parameters(self, trials: int, seed: SeedSequence) -> tuple[Floats, Floats, Floats]:
        """Return parameters (trials, models, dim), noise levels and weights (trials,)."""
        models = 1 if self.layout == "shared" else self.actions
        noise = np.resize(self._by_stratum([level for _, level in self.scenarios]), trials)
        spread = self.spreads(trials)[:, None, None]
        normals = generator(branch(seed, PARAMETERS)).standard_normal((trials, models, self.dim))
        # A trial's weight is its stratum's probability.
        weight = np.resize(len(self.strata) * self._stratum_weights, trials)
        if self.past is not None:
            shared = generator(branch(seed, COMMON)).standard_normal((trials, self.dim))
            theta = parameters_given(self.past, self.spreads(trials), noise, normals, shared)
            return theta, noise, weight
        if self.dim == 1:
            drawn, counts = with_near_ties(normals[..., 0], generator(branch(seed, TIES)))
            normals, weight = drawn[..., None], weight * counts
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
    """Return the mean length of a standard normal vector, optionally after a constant 1.

    >>> round(_mean_length(1, constant=False), 4)
    0.7979
    """
    from scipy.special import gammaincinv

    freedom = dim - 1 if constant else dim
    if freedom == 0:
        return 1.0
    # The mean over slices of equal probability, each evaluated at its middle.
    shares = (np.arange(20_000) + 0.5) / 20_000
    squares = 2 * gammaincinv(freedom / 2, shares)
    return float(np.sqrt(squares + (1.0 if constant else 0.0)).mean())

"""Batched linear Thompson sampling: each action with the probability that it is best.

The posterior of theta is N(theta, scale^2 A^-1), with theta and A from the ridge regression on all
earlier batches; it is frozen within a batch. An action's probability is the share of posterior
draws under which it is best. All units of a batch share the same draws, which come in pairs around
the mean and depend only on the batch's number. The logged probabilities are therefore exact, as
valid inference requires, in steps of 1 / samples.

In the last batch nothing can be learned any more: ``last="greedy"`` stops exploring there. With
``scale="outcomes"``, the default, the noise level is that of the outcomes so far, not a guess.

With ``objective="choose"`` one action will be chosen for all units afterwards, and what units earn
until then matters less. A unit's probabilities p become p_a (1 - p_a) / sum_b p_b (1 - p_b), which
compares the actions that may still be best: exploration sampling. If one action is best under all
draws, it gets all units. Choose the action of the highest estimated mean at the end.

*Guarantee.* Not in the paper; a common baseline. It explores in every layout, so ``first`` matters
little. Without contexts, the share of the best action under exploration sampling tends to 1/2, and
the posterior probability of a wrong choice then falls at the best possible rate (Kasy and Sautmann
2021, Theorem 1). It seeks the best action, and not precise estimates of all: keep a floor where
you need these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch.core import Estimate, Problem, Statistics, arguments, ridge
from seqbatch.core.arrays import Floats
from seqbatch.core.pooled_regression import PooledRegression
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import State
from seqbatch.policies.estimation import (
    OUTCOMES,
    EstimatingPolicy,
    covariance_root,
    with_levels,
    without_widths,
)
from seqbatch.policies.rule import Rule

Objective = Literal["earn", "choose"]


@dataclass(frozen=True, kw_only=True)
class ThompsonSampling(EstimatingPolicy):
    """Batched linear Thompson sampling.

    Parameters
    ----------
    scale
        The posterior's standard deviation in units of A^(-1/2): the noise level. ``"outcomes"``,
        the default: the residual standard deviation of the outcomes so far. Before any outcome all
        draws are around 0, and their size changes no choice.
    ridge
        lambda, the prior precision divided by scale^2.
    samples
        The number of posterior draws behind the probabilities; an even number.
    objective
        ``"earn"``: what units earn counts, as published. ``"choose"``: only the action that is
        chosen at the end counts; see above.
    estimate, waves, constant, history
        See :class:`~seqbatch.policies.estimation.EstimatingPolicy`. Draws of a pooled estimate are
        from its joint posterior, over all scales that the outcomes leave possible.
    first, ties, last
        See :class:`~seqbatch.policies.base.LinearPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(
    ...     ThompsonSampling(scale=1.0, samples=1000), grids.explicit([50, 60]), actions=2, dim=1,
    ...     layout="block", seed=1,
    ... )
    >>> actions = learner.assign(np.ones((50, 1))).actions
    >>> learner.observe(np.where(actions == 1, 0.3, 0.0))
    >>> learner.assign(np.ones((1, 1))).probabilities.round(2)
    array([[0.14, 0.86]])
    """

    scale: float | Literal["outcomes"] = OUTCOMES
    ridge: float = 1.0
    samples: int = 512
    objective: Objective = "earn"

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"scale": 0.5, "ridge": 2.0, "samples": 64},
        {"scale": 2.0, "samples": 32, "first": "uniform", "ties": "random"},
        {"scale": "outcomes", "samples": 32, "last": "greedy", "estimate": "pooled"},
        {"samples": 64, "objective": "choose"},
    )
    sharing: ClassVar[Literal["greedy", "thompson"]] = "thompson"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plain_unless("scale", OUTCOMES, at_least=0)
        self._plain("ridge", above=0)
        samples = arguments.integer("samples", self.samples, at_least=2)
        if samples % 2:
            raise InvalidArgumentError("samples", "an even number", samples)
        object.__setattr__(self, "samples", samples)
        arguments.choice("objective", self.objective, ("earn", "choose"))

    def numbers_kept(self, problem: Problem) -> int:
        """Return roughly how many numbers a state holds, including the posterior draws."""
        return super().numbers_kept(problem) + self.samples * problem.models * problem.dim

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return theta = 0 and A = ridge I, with draws from that posterior; or the history."""
        if self.history is not None:
            return super().prior(problem)
        posterior = ridge(Statistics.zero(problem.models, problem.dim), self.ridge)
        scale = 1.0 if self.scale == OUTCOMES else self.scale
        return posterior, self._draws(posterior, problem, batch=1, scale=np.full(1, scale))

    def refit(self, state: State) -> State:
        """Update the posterior and draw from it for the next batch."""
        if self.pools(state.problem):
            fits = self.pooled(state)
            return replace(state, estimates=(without_widths(fits), self._pooled_draws(state, fits)))
        outcomes, added = self.outcomes_alone(state, self.ridge)
        posterior = with_levels(ridge(outcomes, self.ridge), added)
        scale = self._scales(state, outcomes)
        drawn = self._draws(posterior, state.problem, state.batch + 1, scale)
        return replace(state, estimates=(posterior, drawn))

    def preference(self, state: State) -> Rule:
        """Give each action the share of posterior draws under which it is best."""
        return Rule(
            kind="shares",
            theta=state.estimates[0].theta,
            samples=self._thetas(state),
            contested=self.objective == "choose",
            ties=self.ties,
            intervals=self.intervals(state),
        )

    def _thetas(self, state: State) -> Floats:
        """Return the posterior draws, shape (samples, models, dim)."""
        # Stored as a second estimate, hence part of every saved state.
        return state.estimates[1].theta.reshape(self.samples, -1, state.problem.dim)

    def _scales(self, state: State, outcomes: Statistics) -> Floats:
        """Return the noise level of each trial, shape (trials,)."""
        if self.scale == OUTCOMES:
            return self.residual_noise(state, outcomes)
        return np.full(outcomes.cells // state.problem.models, self.scale)

    def _normals(self, problem: Problem, batch: int, numbers: int) -> Floats:
        """Return half as many vectors of standard normals as there are draws."""
        # Keyed by the batch number alone: a replay of a campaign gets the same draws. In pairs
        # around the mean: the mean of the draws is exactly the posterior mean.
        generator = np.random.Generator(np.random.Philox(key=batch))
        return generator.standard_normal((self.samples // 2, numbers, problem.dim))

    def _draws(self, posterior: Estimate, problem: Problem, batch: int, scale: Floats) -> Estimate:
        """Return the draws as an estimate without widths: all models of one draw, then the next."""
        models = len(posterior.theta)
        half = np.tile(self._normals(problem, batch, problem.models), (1, len(scale), 1))
        spread = np.einsum("smi,mij->smj", half, posterior.root)
        spread *= np.repeat(scale, models // len(scale))[:, None]
        return _as_estimate(np.concatenate([posterior.theta + spread, posterior.theta - spread]))

    def _pooled_draws(self, state: State, fits: Sequence[PooledRegression]) -> Estimate:
        """Return draws of each trial from the joint posterior of common part and deviations."""
        problem, half = state.problem, self.samples // 2
        normals = self._normals(problem, state.batch + 1, 1 + problem.models)
        # With a history, the free part is longer, and its length depends on the drift.
        free_parts = max(len(each.fit.outer) for one in fits for each in one.grid)
        level = np.zeros(free_parts - problem.dim)
        # Levels affect no choice, but are correlated with what does.
        waves = np.random.Generator(np.random.Philox(key=[state.batch + 1, 1]))
        free = np.column_stack([normals[:, 0], waves.standard_normal((half, len(level)))])
        trials = []
        for one in fits:
            scale = np.sqrt(one.variance) if self.scale == OUTCOMES else float(self.scale)
            trials.append(_draws_of(one, float(scale), free, normals[:, 1:]))
        return _as_estimate(np.concatenate(trials, axis=1))


def _draws_of(one: PooledRegression, scale: float, free: Floats, own: Floats) -> Floats:
    """Return draws in pairs around the mean under each pair of scales, (draws, models, dim)."""
    half = len(free)
    # Evenly spread through the probabilities of the scales.
    ends = np.cumsum([each.weight for each in one.grid])
    places = np.minimum(np.searchsorted(ends, (np.arange(half) + 0.5) / half), len(ends) - 1)
    means, spread = np.empty((2, *own.shape))
    for place in np.unique(places):
        fit, rows = one.grid[place].fit, places == place
        means[rows] = fit.theta
        shared = free[rows][:, : len(fit.outer)] @ covariance_root(fit.outer[None])[0]
        spread[rows] = scale * (
            np.einsum("apf,sf->sap", fit.carried, shared)
            + np.einsum("sai,aij->saj", own[rows], covariance_root(fit.inner))
        )
    return np.concatenate([means + spread, means - spread])


def _as_estimate(thetas: Floats) -> Estimate:
    cells, dim = thetas.shape[0] * thetas.shape[1], thetas.shape[2]
    return replace(Estimate.zero(cells, dim), theta=thetas.reshape(-1, dim))

"""SBUCB: ridge regression and upper confidence bounds, frozen within a batch (Algorithm 1).

Each unit gets the action with the highest <x, theta> + gamma sqrt(x' A^-1 x), where A = ridge I +
the sum of x x' over all units of earlier batches, and theta = A^-1 times the sum of reward x.

*Guarantee.* For arbitrary contexts of norm at most 1 on a uniform grid, regret of order
sqrt(d T) + d T / M up to logarithms (Theorem 1); no method can do much better. The proof needs
rewards that are independent given the chosen contexts, which SBUCB's adaptivity violates. SupSBUCB
repairs that at a price; the paper recommends SBUCB in practice. With few batches and arbitrary
contexts, regret is linear for every method.

*Block layout.* Before any data, all widths of a unit are equal. As published (``first="fixed"``),
the whole first batch therefore gets action 0, and usually each further batch one action, until all
have been tried. Unless `first` is stated, units are random in this layout until all have outcomes.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from seqbatch import theory
from seqbatch.core import Contexts, Estimate, Problem, Statistics, kernels, ridge
from seqbatch.core.arrays import Floats, Integers
from seqbatch.policies.base import LinearPolicy, State
from seqbatch.policies.estimation import OUTCOMES, EstimatingPolicy, with_levels, with_widths
from seqbatch.policies.rule import Rule


@dataclass(frozen=True)
class ConfidencePolicy(LinearPolicy):
    """Base class of SBUCB and SupSBUCB: ridge regressions and a multiplier of their widths.

    Parameters
    ----------
    gamma, ridge
        See :class:`SBUCB`.
    first, ties
        See :class:`~seqbatch.policies.base.LinearPolicy`.
    """

    gamma: float | None = None
    _: KW_ONLY
    ridge: float = 1.0

    optimistic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma is not None:
            self._plain("gamma", at_least=0)
        self._plain("ridge", above=0)

    def multiplier(self, problem: Problem) -> float:
        """Return gamma, either the given value or that of Lemma 1."""
        if self.gamma is not None:
            return self.gamma
        return theory.confidence_multiplier(units=problem.units, actions=problem.actions)

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return theta = 0 and A = ridge I for each group."""
        nothing = Statistics.zero(problem.models, problem.dim)
        return (ridge(nothing, self.ridge),) * self.groups(problem)

    def refit(self, state: State) -> State:
        """Solve the ridge regression of every model with new feedback."""
        estimates = tuple(
            ridge(evidence, self.ridge, stale=stale, previous=previous) if stale.any() else previous
            for evidence, stale, previous in zip(
                state.evidence, state.stale, state.estimates, strict=True
            )
        )
        return replace(state, estimates=estimates)

    def preference(self, state: State) -> Rule:
        """Return the rule of the highest upper confidence bound."""
        estimate, gamma = state.estimates[0], self.multiplier(state.problem)
        return Rule(
            kind="highest",
            theta=estimate.theta,
            root=estimate.root,
            gamma=gamma,
            ties=self.ties,
            intervals=self.intervals(state),
        )

    # Kernels take no states: they get the arrays of all groups, concatenated, and modify them.
    def replayed(
        self,
        state: State,
        contexts: Contexts,
        table: Floats,
        draws: Floats,
        batches: int,
        kernel: Callable[..., None],
    ) -> tuple[State, Integers]:
        """Run a replay kernel on the concatenated arrays of all groups."""
        models, groups = state.problem.models, len(state.evidence)
        names = [field.name for field in fields(Statistics)]
        evidence = Statistics(
            *(np.concatenate([getattr(part, name) for part in state.evidence]) for name in names)
        )
        theta = np.concatenate([estimate.theta for estimate in state.estimates])
        root = np.concatenate([estimate.root for estimate in state.estimates])
        actions = np.empty(len(contexts), dtype=np.int64)
        kernel(
            rows=contexts.rows(),
            table=table,
            gamma=self.multiplier(state.problem),
            penalty=self.ridge,
            draws=draws,
            random_ties=self.ties == "random",
            random_first=state.batch == 1 and self.opening(state.problem) == "uniform",
            until_tried=self.tries_all(state.problem),
            eligible=contexts.eligible,
            gram=evidence.gram,
            moment=evidence.moment,
            squares=evidence.squares,
            count=evidence.count,
            theta=theta,
            root=root,
            actions=actions,
        )
        parts = [slice(group * models, (group + 1) * models) for group in range(groups)]
        played = replace(
            state,
            batch=state.batch + batches,
            evidence=tuple(
                Statistics(*(getattr(evidence, name)[part] for name in names)) for part in parts
            ),
            estimates=tuple(
                replace(estimate, theta=theta[part], root=root[part])
                for estimate, part in zip(state.estimates, parts, strict=True)
            ),
        )
        return self.told_untried(played), actions


@dataclass(frozen=True, kw_only=True)
class SBUCB(EstimatingPolicy, ConfidencePolicy):
    """Sequential batch UCB (Algorithm 1).

    Parameters
    ----------
    gamma
        The multiplier of the widths. None means 1 + sqrt(ln(2 K T / delta) / 2) with delta = 1/T
        (Lemma 1). The paper's experiments use 6.
    ridge
        lambda, the penalty of the ridge regression; 1 in the paper.
    noise
        The multiplier of gamma: the noise level, 1 in the paper. ``"outcomes"``: the residual
        standard deviation of the outcomes so far.
    estimate, waves, constant, history
        See :class:`~seqbatch.policies.estimation.EstimatingPolicy`. With wave levels UCB may stop
        giving an action within a wave, and then fail completely: keep a floor.
    first, ties, last
        See :class:`~seqbatch.policies.base.LinearPolicy`.

    Examples
    --------
    >>> import numpy as np
    >>> from seqbatch import Learner, grids
    >>> learner = Learner(SBUCB(gamma=0.5), grids.uniform(units=6, batches=2), actions=2, dim=2)
    >>> x = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> learner.assign(x).actions
    array([0, 0, 0])
    >>> learner.observe([0.0, 0.0, 0.0])
    >>> decision = learner.assign(x)
    >>> decision.actions, decision.widths[0]
    (array([1, 1, 1]), array([0.5, 1. ]))
    """

    noise: float | Literal["outcomes"] = 1.0

    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"gamma": 0.7, "ridge": 2.5},
        {"gamma": 0.3, "ridge": 0.1, "first": "uniform", "ties": "random"},
        {"gamma": 1.0, "noise": "outcomes", "first": "uniform", "estimate": "pooled"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._plain_unless("noise", OUTCOMES, above=0)

    @property
    def published(self) -> bool:
        """Whether estimates and widths are those of Algorithm 1."""
        return super().published and self.noise == 1.0

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return one estimate, however many groups the evidence has."""
        return super().prior(problem)[:1]

    def refit(self, state: State) -> State:
        """Solve the regression of every model."""
        if self.published:
            return super().refit(state)
        models = state.problem.models
        if self.pools(state.problem):
            fits = self.pooled(state)
            fitted, noise = with_widths(fits), np.sqrt([one.variance for one in fits])
        else:
            outcomes, added = self.outcomes_alone(state, self.ridge)
            fitted = with_levels(ridge(outcomes, self.ridge), added)
            noise = self.residual_noise(state, outcomes) if self.noise == OUTCOMES else np.ones(1)
        if self.noise != OUTCOMES:
            noise = np.full(len(noise), self.noise)
        scale = np.repeat(np.resize(noise, len(fitted.theta) // models), models)
        return replace(state, estimates=(replace(fitted, root=scale[:, None, None] * fitted.root),))

    def replay(
        self, state: State, contexts: Contexts, table: Floats, draws: Floats
    ) -> tuple[State, Integers]:
        """Play whole batches against a table of every action's reward, in one compiled loop.

        The result is bit-identical to calling `assign`, `learn` and `close` batch by batch.
        """
        ends = ends_ahead(state, len(contexts))
        kernel = partial(kernels.replay_ucb, ends=ends)
        return self.replayed(state, contexts, table, draws, len(ends), kernel)


def ends_ahead(state: State, units: int) -> Integers:
    """Return the ends of the batches that hold the next `units` units, relative to the open one."""
    problem, batch = state.problem, state.batch
    ends = np.asarray(problem.ends[batch - 1 :], dtype=np.int64)
    ends -= problem.ends[batch - 1] - problem.size(batch)
    return ends[: np.searchsorted(ends, units) + 1]

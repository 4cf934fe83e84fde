"""How linear policies estimate: each action alone or pooled, with or without a level per wave.

*Pooled.* Actions mostly have similar effects: a customer who buys, buys under every offer. The
coefficients of an action are then a common part plus a deviation that is shrunk as far as the
outcomes suggest; see :mod:`seqbatch.core.pooled_regression`. It helps most where units per
parameter are few. An action without outcomes gets the common part. In the shared layout there is
one model, and nothing to pool.

*Wave levels.* December sells more than January, whatever the offer. If the policy gave one offer to
most units in December, that offer looks good in sums over both months. With a level for each wave,
shared by all actions, actions are compared within waves: a constant added to all outcomes of a wave
changes no decision. Waves must mix actions: different features do, and a floor or a randomised
share does for certain. UCB may give a wave one action alone: its campaigns need one of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Literal

import numpy as np

from seqbatch.core import Estimate, Problem, Statistics, arguments, ridge
from seqbatch.core.arrays import Floats
from seqbatch.core.joint_regression import (
    JointSums,
    free_levels,
    pseudo_inverse,
    require_constant,
)
from seqbatch.core.pooled_regression import PooledRegression, pooled_regression
from seqbatch.core.regression import noise_variance
from seqbatch.errors import InvalidArgumentError
from seqbatch.policies.base import First, LinearPolicy, State
from seqbatch.policies.history import History, combined
from seqbatch.policies.rule import Intervals

Levels = Literal["same level", "own level"]
SAME_LEVEL: Levels = "same level"
OWN_LEVEL: Levels = "own level"
#: The noise level is that of the outcomes so far.
OUTCOMES: Literal["outcomes"] = "outcomes"
#: The policies that can start from an earlier experiment.
WITH_HISTORY = (
    "JointRidge",
    *(
        f'{kind} with estimate = "pooled"'
        for kind in ("SBPE", "RBGL", "EpsilonGreedy", "SBUCB", "ThompsonSampling")
    ),
)


@dataclass(frozen=True, kw_only=True)
class LeveledPolicy(LinearPolicy):
    """Policies that may give each wave its own level.

    Parameters
    ----------
    waves
        ``"same level"``: outcomes of all waves are comparable. ``"own level"``: outcomes of a wave
        may be higher or lower for all actions together; needs `constant`.
    constant
        The number of the column that is 1 for every unit, from 0; None if there is none.
    history
        The sums of an earlier experiment, to start from; a
        :class:`~seqbatch.policies.history.History` or its plain values. Unless `first` is stated,
        the first batch follows from it. Needs a pooled estimate.
    first, ties, last
        See :class:`~seqbatch.policies.base.LinearPolicy`.
    """

    waves: Levels = SAME_LEVEL
    constant: int | None = None
    history: History | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history is not None:
            object.__setattr__(self, "history", History.read(self.history))
            if not self.pooling:
                raise InvalidArgumentError(
                    "history",
                    f'left out for {type(self).__name__} without estimate = "pooled"',
                    "a history",
                    f"Policies that can start from one: {', '.join(WITH_HISTORY)}.",
                )
        arguments.choice("waves", self.waves, (SAME_LEVEL, OWN_LEVEL))
        if self.constant is not None:
            constant = arguments.integer("constant", self.constant, at_least=0)
            object.__setattr__(self, "constant", constant)
        elif self.waves == OWN_LEVEL:
            raise InvalidArgumentError(
                "constant",
                'the number of the column that is 1 for every unit, if waves = "own level"',
                None,
            )

    def opening(self, problem: Problem) -> First:
        """Return how the first batch is assigned: by the history, if there is one."""
        if self.first is None and self.history is not None:
            return "fixed"
        return super().opening(problem)

    @property
    def folds(self) -> int:
        """The number of folds into which the outcomes of every wave are divided."""
        return 1

    @property
    def leveled(self) -> bool:
        """Whether each wave has its own level."""
        return self.waves == OWN_LEVEL

    def begin(self, problem: Problem) -> State:
        """Return the state before the first unit."""
        if self.constant is not None and self.constant >= problem.dim:
            raise InvalidArgumentError(
                "constant", f"below {problem.dim}, the length of a context vector", self.constant
            )
        if self.history is not None:
            self.history.require(problem)
        return super().begin(problem)

    def prior(self, problem: Problem) -> tuple[Estimate, ...]:
        """Return the estimates before any data: from the history, if there is one."""
        if self.history is None:
            return super().prior(problem)
        none = Statistics.zero(problem.models, problem.dim)
        evidence = (none,) * self.groups(problem)
        return self.refit(State(problem, 0, evidence, (), ())).estimates

    def groups(self, problem: Problem) -> int:
        """Keep waves apart if they have levels, and folds if there are several."""
        return self.folds * (problem.batches if self.leveled else 1)

    def intervals(self, state: State) -> Intervals | None:
        """Return the parts of the evidence that the open wave's outcomes enter."""
        groups = self.groups(state.problem)
        if groups == 1:
            return None
        return Intervals(
            size=state.problem.size(state.batch),
            pieces=self.folds,
            first=self.folds * (state.batch - 1) if self.leveled else 0,
            used=(0, groups),
        )

    def evidence_used(self, state: State) -> Statistics:
        """Return all evidence."""
        return reduce(Statistics.merge, state.evidence)

    def joint_sums(self, state: State, *, every_level: bool = False) -> list[list[JointSums]]:
        """Return the sums of each fold, for each trial of the state (one, except in simulators).

        With `every_level` the first wave has a level, too.
        """
        models = state.problem.models
        if self.constant is not None:
            require_constant(state.evidence, self.constant)
        # evidence[wave * folds + fold], and one "wave" if waves have no levels.
        waves = [state.evidence[k :: self.folds] for k in range(self.folds)]
        counts = np.array([part.count for part in state.evidence])
        by_wave = counts.reshape(-1, self.folds, counts.shape[1]).sum(axis=(1, 2))
        seen = np.flatnonzero(by_wave) if self.leveled else np.zeros(1, dtype=np.int64)
        levels = seen[int(not every_level or not self.leveled) :].tolist()
        folds = [JointSums.of(some, constant=self.constant, levels=levels) for some in waves]
        trials = folds[0].count.shape[0] // models
        return [
            [fold.part(slice(trial * models, (trial + 1) * models)) for fold in folds]
            for trial in range(trials)
        ]

    def from_history(
        self, state: State
    ) -> list[tuple[PooledRegression, dict[float | None, float]]]:
        """Return each trial's estimate from history and outcomes, and the weight of each drift."""
        assert self.history is not None
        return [
            combined(
                self.history,
                constant=self.constant,
                leveled=self.leveled,
                sums=reduce(JointSums.plus, every),
                alone=reduce(JointSums.plus, rest),
                fitted=partial(self.without_history, rest),
            )
            for every, rest in zip(
                self.joint_sums(state, every_level=True), self.joint_sums(state), strict=True
            )
        ]

    def without_history(self, folds: Sequence[JointSums]) -> PooledRegression:
        """Return the estimate of one trial from the sums of its outcomes alone, fold by fold."""
        raise NotImplementedError

    def drifts(self, state: State) -> dict[float | None, float]:
        """Return the weight of each drift of the history, and of None: no history."""
        return {} if self.history is None else self.from_history(state)[0][1]


@dataclass(frozen=True, kw_only=True)
class EstimatingPolicy(LeveledPolicy):
    """Policies whose estimate may be their own or pooled across actions.

    Parameters
    ----------
    estimate
        ``"own"``: the published estimator, for each action alone. ``"pooled"``: a common part and
        deviations that are shrunk as far as the outcomes suggest.
    waves, constant
        See :class:`LeveledPolicy`.
    first, ties, last
        See :class:`~seqbatch.policies.base.LinearPolicy`.
    """

    estimate: Literal["own", "pooled"] = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice("estimate", self.estimate, ("own", "pooled"))

    @property
    def published(self) -> bool:
        """Whether the policy estimates as published."""
        return super().published and self.estimate == "own" and not self.leveled

    @property
    def pooling(self) -> bool:
        """Whether actions learn from one another, if each has its own model."""
        return self.estimate == "pooled"

    def pooled(self, state: State) -> list[PooledRegression]:
        """Return the pooled regression of each trial."""
        if self.history is not None:
            return [fit for fit, _ in self.from_history(state)]
        return [self.without_history(folds) for folds in self.joint_sums(state)]

    def without_history(self, folds: Sequence[JointSums]) -> PooledRegression:
        """Return the pooled regression of one trial from its outcomes alone."""
        return pooled_regression(reduce(JointSums.plus, folds), constant=self.constant)

    def outcomes_alone(self, state: State, penalty: float) -> tuple[Statistics, Floats | None]:
        """Return the sums of outcomes less their wave's level, and what that adds to covariances.

        Parameters
        ----------
        state
            The state.
        penalty
            The penalty of the ridge regression of each action; 0 for least squares.
        """
        if not self.leveled:
            return state.evidence[0], None
        parts, added = [], []
        for folds in self.joint_sums(state):
            sums = reduce(JointSums.plus, folds)
            inner = _inverse(sums, penalty) if penalty else pseudo_inverse(sums.gram)
            levels, covariance = free_levels(sums, inner)
            crossing = inner @ sums.crossed.transpose(0, 2, 1)
            parts.append(sums.without_levels(levels))
            added.append(crossing @ covariance @ crossing.transpose(0, 2, 1))
        names = ("gram", "moment", "squares", "count")
        every = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return Statistics(*every), np.concatenate(added)

    def residual_noise(self, state: State, outcomes: Statistics) -> Floats:
        """Return each trial's residual standard deviation, shape (trials,).

        Parameters
        ----------
        state
            The state.
        outcomes
            The sums of outcomes less their wave's level.
        """
        spent = self.joint_sums(state)[0][0].levels if self.leveled else 0
        return noise_levels(outcomes, state.problem.models, spent=spent)


def _inverse(sums: JointSums, penalty: float) -> Floats:
    """Return (gram + penalty)^-1 of each action, from roots that rounding does not break."""
    root = ridge(sums.without_levels(np.zeros(sums.levels)), penalty).root
    found: Floats = root.transpose(0, 2, 1) @ root
    return found


def noise_levels(outcomes: Statistics, models: int, *, spent: int = 0) -> Floats:
    """Return the residual standard deviation of each trial, over all of its models."""
    parts = [slice(start, start + models) for start in range(0, outcomes.cells, models)]
    variances = [
        noise_variance(
            Statistics(
                outcomes.gram[part], outcomes.moment[part], outcomes.squares[part],
                outcomes.count[part],
            ),
            spent=spent,
        )
        for part in parts
    ]  # fmt: skip
    levels: Floats = np.sqrt(np.array(variances))
    return levels


def without_widths(fits: list[PooledRegression]) -> Estimate:
    """Return pooled regressions as one estimate, without widths."""
    theta = np.concatenate([one.fit.theta for one in fits])
    cells, dim = theta.shape
    return Estimate(theta, np.zeros((0, 0, 0)), np.full(cells, dim), np.full(cells, np.nan))


def with_widths(fits: list[PooledRegression]) -> Estimate:
    """Return pooled regressions as one estimate, with widths in units of the noise."""
    plain = without_widths(fits)
    covariances = np.concatenate([one.fit.covariances() for one in fits])
    return Estimate(plain.theta, covariance_root(covariances), plain.rank, plain.condition)


def with_levels(fitted: Estimate, added: Floats | None) -> Estimate:
    """Return an estimate whose widths include the covariance that wave levels add."""
    if added is None:
        return fitted
    own = fitted.root.transpose(0, 2, 1) @ fitted.root
    return Estimate(fitted.theta, covariance_root(own + added), fitted.rank, fitted.condition)


def covariance_root(covariances: Floats) -> Floats:
    """Return the lower triangular R with R' R equal to each covariance.

    >>> root = covariance_root(np.array([[[2.0, 1.0], [1.0, 3.0]]]))[0]
    >>> bool(root[0, 1] == 0), (root.T @ root).round(12)
    (True, array([[2., 1.],
           [1., 3.]]))
    """
    # By eigenvalues, not by Cholesky: rounding may make the smallest ones negative. Columns are
    # scaled to the same size first, as features may differ by many orders of magnitude.
    sizes = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    sizes = np.where(sizes > 0, sizes, 1.0)
    values, vectors = np.linalg.eigh(covariances / (sizes[:, :, None] * sizes[:, None, :]))
    halves = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)
    upper = np.linalg.qr(halves[:, :, ::-1])[1]
    return np.ascontiguousarray(upper[:, ::-1, ::-1] * sizes[:, None, :])

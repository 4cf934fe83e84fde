"""Replanning: posterior of effect and noise given the outcomes so far, and new batch sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from seqbatch.core import Statistics, arguments
from seqbatch.core.arrays import Floats, Integers
from seqbatch.errors import InvalidArgumentError, InvalidGridError
from seqbatch.planning.best_grids import search
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.proposal import Posterior, Proposal
from seqbatch.planning.request import (
    JUDGING,
    TUNING,
    USUAL,
    BatchLimits,
    EffectLaw,
    Request,
    Sizes,
    limits_of,
)
from seqbatch.planning.result import Plan
from seqbatch.planning.trials import Trials
from seqbatch.planning.trials.greedy_runs import KnownPast, Rates

# ----------------------------------------------------------------------
# The likelihood of effect and noise, given the outcomes.
#
# The prior extends that of :mod:`seqbatch.planning.gaussian_model`: given the effect, every
# coordinate of an action's parameters is a part common to all actions plus N(0, s^2), and rewards
# have Gaussian noise. The common part affects no choice and is not part of the effect; its prior is
# far wider than the rewards. Everything is normal, so the likelihood has a closed form in the sums.


Scenario = tuple[float, float]

#: The minimum spread of the prior on effects: a guess may be far off, and from here on there are
#: outcomes to correct it.
MISJUDGED = 4.0
#: The range of effects to try, as a factor around the stated and the default effect, and its steps.
REACH, STEP = 128.0, math.sqrt(2.0)
#: The noise levels to try, in standard errors around the residuals' estimate.
NOISE_STEPS = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
#: The number of equally plausible scenarios that represent the posterior.
SCENARIOS = 32
#: The standard deviation of the common part, relative to that of the rewards.
OPEN = 100.0


def common_spread(known: Statistics, model: Model) -> float:
    """Return the standard deviation of the actions' common part; 0 in the shared model."""
    if model.layout == "shared":
        return 0.0
    return OPEN * math.sqrt(float(known.squares.sum() / max(known.count.sum(), 1)))


def log_evidence(known: Statistics, *, spread: float, noise: float, common: float) -> float:
    """Return the log density of the outcomes, with the parameters integrated out.

    Parameters
    ----------
    known
        The sums of the outcomes, one cell per model, in whitened coordinates.
    spread, noise
        The standard deviations of parameters around their common part, and of rewards.
    common
        The standard deviation of the common part's coordinates; 0 if there is none.
    """
    variance, ratio = noise**2, (noise / spread) ** 2
    system = known.gram + ratio * np.eye(known.dim)
    solved = np.linalg.solve(system, np.concatenate([known.gram, known.moment[..., None]], axis=2))
    explained = float(np.einsum("ai,ai->", known.moment, solved[..., -1]))
    # ln det (I + G / ratio), for each action.
    widths = float(np.linalg.slogdet(system)[1].sum()) - known.moment.size * math.log(ratio)
    count = int(known.count.sum())
    twice = count * math.log(2 * math.pi * variance) + widths
    twice += (float(known.squares.sum()) - explained) / variance
    if common:
        precision = solved[..., :-1].sum(axis=0) / spread**2
        pull = solved[..., -1].sum(axis=0) / spread**2
        opened = precision + np.eye(known.dim) / common**2
        twice += float(np.linalg.slogdet(opened)[1]) + 2 * known.dim * math.log(common)
        twice -= float(pull @ np.linalg.solve(opened, pull))
    return -twice / 2


def learned(known: Statistics, model: Model, law: EffectLaw) -> tuple[Scenario, ...]:
    """Return equally plausible pairs of effect and noise, given the outcomes.

    The prior of the effect is log-normal around each guess or, if none was stated, around the
    default share of the residual noise. The prior of the noise is flat.
    """
    if not known.squares.sum():
        # All outcomes are zero: there is nothing to learn from.
        return model.scenarios
    common, noises = common_spread(known, model), _noises(known, model)
    usual = USUAL * float(np.median(noises))
    law = law if law.stated else replace(law, guesses=(usual,))
    pairs = list(product(_effects([*law.guesses, usual]), noises))
    logs = np.array(
        [
            log_evidence(known, spread=model.spread(effect), noise=noise, common=common)
            + _log_prior(effect, law)
            for effect, noise in pairs
        ]
    )
    weights = np.exp(logs - logs.max())
    shares = np.cumsum(weights) / weights.sum()
    # The midpoints of equally weighted parts: negligible pairs are never chosen.
    found = np.searchsorted(shares, (np.arange(SCENARIOS) + 0.5) / SCENARIOS)
    return tuple(pairs[place] for place in found)


def _effects(near: list[float]) -> Floats:
    """Return the effects to try."""
    low, high = math.log(min(near) / REACH), math.log(max(near) * REACH)
    steps = math.ceil((high - low) / math.log(STEP))
    effects: Floats = np.exp(np.linspace(low, high, steps + 1))
    return effects


def _noises(known: Statistics, model: Model) -> Floats:
    """Return noise levels around the residuals of least squares, or around the stated ones."""
    freedom, left = 0.0, 0.0
    for gram, moment, squares, count in zip(
        known.gram, known.moment, known.squares, known.count, strict=True
    ):
        fit, _, rank, _ = np.linalg.lstsq(gram, moment, rcond=1e-10)
        freedom += max(float(count) - rank, 0.0)
        left += max(float(squares - moment @ fit), 0.0)
    steps = np.array(NOISE_STEPS)
    if freedom and left > 1e-12 * known.squares.sum():
        around: Floats = math.sqrt(left / freedom) * np.exp(steps / math.sqrt(2 * freedom))
        return around
    stated = float(np.exp(np.mean([math.log(noise) for _, noise in model.scenarios])))
    wide: Floats = stated * np.exp(steps)
    return wide


def _log_prior(effect: float, law: EffectLaw) -> float:
    """Return the log prior density of the log effect, up to a constant."""
    far = np.log(effect / np.array(law.guesses)) / math.log(max(law.spread, MISJUDGED))
    return float(np.logaddexp.reduce(-(far**2) / 2))


def centred(known: Statistics) -> Statistics:
    """Return the sums for rewards minus their mean, for rows that start with the constant 1."""
    mean = float(known.moment[:, 0].sum() / known.count.sum())
    squares = known.squares - 2 * mean * known.moment[:, 0] + mean**2 * known.count
    return replace(
        known,
        moment=known.moment - mean * known.gram[:, :, 0],
        squares=np.maximum(squares, 0.0),
    )


# ----------------------------------------------------------------------
# Whitening of the experiment's statistics.


def whitened(statistics: Statistics, covariance: ArrayLike | None, model: Model) -> Statistics:
    """Return statistics in coordinates in which contexts are standard normal."""
    return turned(statistics, context_root(statistics, covariance, model))


def turned(statistics: Statistics, root: Floats) -> Statistics:
    """Return statistics in the coordinates that a matrix maps to those of the statistics."""
    inverse = np.linalg.inv(root)
    return replace(
        statistics,
        gram=inverse @ statistics.gram @ inverse.T,
        moment=statistics.moment @ inverse.T,
    )


def context_root(statistics: Statistics, covariance: ArrayLike | None, model: Model) -> Floats:
    """Return the matrix that maps whitened contexts to those of the statistics.

    With features, the statistics contain every unit's row, whatever its action: they determine mean
    and covariance.
    """
    count, dim = int(statistics.count.sum()), statistics.dim
    if count <= dim:
        raise InvalidArgumentError("statistics", f"of more than {dim} units", f"{count} units")
    if model.layout == "shared":
        if covariance is None:
            raise InvalidArgumentError("covariance", "given, because the plan uses dim", "none")
        return _root(arguments.floats("covariance", covariance, (dim, dim)))
    if covariance is not None:
        raise InvalidArgumentError("covariance", "left out, because the plan uses features", "one")
    second = statistics.gram.sum(axis=0) / count
    # The mean square of the constant is 1, which is unlikely for any other column.
    if not math.isclose(second[0, 0], 1.0, rel_tol=1e-9):
        raise InvalidArgumentError(
            "statistics",
            "of rows that start with the constant 1",
            f"mean square {second[0, 0]}",
        )
    mean = second[1:, 0]
    root = np.zeros((dim, dim))
    root[0, 0], root[1:, 0] = 1.0, mean
    if dim > 1:
        root[1:, 1:] = _root(second[1:, 1:] - np.outer(mean, mean))
    return root


def _root(covariance: Floats) -> Floats:
    """Return a root of the covariance, with a rank check that does not depend on units."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if (scale > 0).all():
        correlation = covariance / np.outer(scale, scale)
        # Below this, a column is a combination of others, up to rounding.
        if np.linalg.eigvalsh(correlation).min() > 1e-8:
            return scale[:, None] * np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)
    raise InvalidArgumentError(
        "statistics",
        "of features that vary and are not linear combinations of each other",
        "some that are constant or redundant",
        "Leave those columns out; for each category, leave out one level.",
    )


#: A column is redundant if the other columns leave less than this share of its variance.
REPEATED = 1e-6


def independent(gram: Floats) -> Integers:
    """Return the columns that are not redundant given those before them, intercept first.

    With an intercept, the levels of a category include one redundant column, which affects no
    decision.
    """
    left, kept = np.array(gram, dtype=np.float64), list[int]()
    # A variance below this is a rounding error of a constant column.
    least = 1e-12 * np.diag(left)
    for column in range(len(left)):
        variance = left[column, column]
        if variance > least[column]:
            kept.append(column)
            left = left - np.outer(left[:, column], left[column]) / variance
        if column == 0:
            # Once the intercept has removed the means, compare with the columns' variances.
            least = np.maximum(least, REPEATED * np.diag(left))
    return np.array(kept, dtype=np.int64)


def of_columns(known: Statistics, columns: Integers) -> Statistics:
    """Return the sums of some of the columns."""
    return Statistics(
        known.gram[:, columns][:, :, columns], known.moment[:, columns], known.squares, known.count
    )


# ----------------------------------------------------------------------
# Proposals of new sizes.


#: New sizes are proposed if they save this share of the expected regret, and this many of its
#: standard errors.
WORTH, SURE = 0.03, 3.0
#: Shares of the next batch that may be assigned at random, to learn more from it.
EXPLORED = (0.0, 0.2, 0.5, 1.0)
#: The number of trials and points for tuning and for judging sizes.
TUNED, JUDGED = (128, 64), (512, 128)


def propose(
    model: Model,
    law: EffectLaw,
    *,
    seen: int,
    statistics: Statistics,
    sizes: Sequence[int],
    outstanding: Sequence[tuple[int, float]] = (),
    covariance: ArrayLike | None = None,
    min_batch: int | None = None,
    max_batch: int | None = None,
    seed: int = 0,
) -> Proposal:
    """Propose sizes for the remaining batches, with their number and total unchanged.

    Parameters
    ----------
    model, law
        The assumptions before the first outcome: a plan's `model`, and the prior on the effect.
    seen, statistics, outstanding, covariance
        As for :func:`~seqbatch.planning.replan`.
    sizes
        The planned sizes of the remaining batches. They are kept unless others are clearly better.
    min_batch, max_batch
        The minimum and maximum size of a batch, by default as for :func:`~seqbatch.planning.plan`;
        ignored if `sizes` violate them.
    seed
        The same seed gives the same proposal.
    """
    planned = tuple(arguments.integer("sizes", size) for size in sizes)
    if not planned:
        raise InvalidGridError("sizes", "those of at least one remaining batch", "none")
    number, units = len(planned), sum(planned)
    limits = limits_of(units, min_batch and min(min_batch, *planned), max_batch, None, None)
    if not limits.allows(number):
        limits = replace(limits, largest=None)
    if model.conduct.delay and min_batch is None:
        limits = limits.waiting(model.dim, number)
        limits = replace(limits, smallest=min(limits.smallest, *planned))
    after = model_given(model, law, statistics, covariance, outstanding)
    trials = Tried(
        tuning=after.ensemble(TUNED[0], seed=10 * seed + TUNING, points=TUNED[1]),
        judging=after.ensemble(JUDGED[0], seed=10 * seed + JUDGING, points=JUDGED[1]),
        limits=replace(limits, seen=seen),
        least=max(2, min(statistics.cells * statistics.dim, units // 4)),
    )
    now = Option(trials.judging, planned, 0.0)
    options = [now, *(trials.best(number, _shares(after)) if number > 1 else [])]
    best = min(options, key=lambda option: option.regret)
    saving, saving_error = best.saving(now)
    if saving < max(WORTH * now.regret, SURE * saving_error):
        best, saving, saving_error = now, 0.0, 0.0
    return Proposal(
        seen=seen,
        planned=planned,
        sizes=best.sizes,
        explored=best.explored,
        regret=now.regret,
        error=now.rates.total(planned)[1],
        saving=saving,
        saving_error=saving_error,
        stated_effect=float(np.exp(np.log(law.guesses).mean())) if law.stated else None,
        effect=Posterior.of(now.rates.uniform),
        noise=Posterior.of(np.array([noise for _, noise in after.scenarios])),
    )


@dataclass(frozen=True, eq=False)
class Option:
    """A way to continue: sizes, and the share of the next batch assigned at random."""

    judging: Trials
    sizes: Sizes
    explored: float

    @cached_property
    def rates(self) -> Rates:
        """The cost of a unit of each batch, in the trials for judging."""
        return self.judging.rates(self.sizes)

    @property
    def lost(self) -> Floats:
        """The loss in each trial."""
        lost: Floats = self.rates.weight * (self.rates.regret @ np.array(self.sizes, float))
        return lost

    @property
    def regret(self) -> float:
        """The mean loss."""
        return float(self.lost.mean())

    def saving(self, other: "Option") -> tuple[float, float]:
        """Return how much less is lost than with another option, and its standard error."""
        less = other.lost - self.lost
        return float(less.mean()), float(less.std(ddof=1)) / math.sqrt(len(less))


def _shares(model: Model) -> list[float]:
    """Return the random shares of the next batch to try: the current one, and larger ones."""
    return [share for share in EXPLORED if not share or share > model.conduct.chance]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    """Trials for finding the best sizes: some for tuning, others for judging.

    Parameters
    ----------
    tuning, judging
        The trials.
    limits
        The limits on the remaining batches.
    least
        The smallest next batch worth trying.
    """

    tuning: Trials
    judging: Trials
    limits: BatchLimits
    least: int

    def best(self, number: int, shares: Sequence[float]) -> list[Option]:
        """Return the best sizes for this many batches, without and with more randomisation.

        The random share is the best one for the first sizes.
        """
        found = self._tuned(number, 0.0)
        share = min(shares, key=lambda share: self._cost(found[0], share))
        options = [self._option(sizes, 0.0) for sizes in found]
        if share:
            options += [self._option(sizes, share) for sizes in self._tuned(number, share)]
        return options

    def _tuned(self, number: int, share: float) -> list[Sizes]:
        @cache
        def cost(sizes: Sizes) -> float:
            return self._cost(sizes, share)

        delay = self.tuning.conduct.delay
        return search(cost, self.limits, number, least=self.least, delay=delay)[0]

    def _cost(self, sizes: Sizes, share: float) -> float:
        """Return the cost of sizes in the tuning trials, whose draws never change."""
        trials = replace(self.tuning, conduct=replace(self.tuning.conduct, explored=share))
        return trials.rates(sizes).total(sizes)[0]

    def _option(self, sizes: Sizes, share: float) -> Option:
        conduct = replace(self.judging.conduct, explored=share)
        return Option(replace(self.judging, conduct=conduct), sizes, share)


def model_given(
    model: Model,
    law: EffectLaw,
    statistics: Statistics,
    covariance: ArrayLike | None,
    outstanding: Sequence[tuple[int, float]] = (),
) -> Model:
    """Return the model given the outcomes so far, with posterior effect, noise and parameters."""
    if not isinstance(statistics, Statistics):
        raise InvalidArgumentError("statistics", "Statistics of the outcomes", repr(statistics))
    models = 1 if model.layout == "shared" else model.actions
    if (statistics.cells, statistics.dim) != (models, model.dim):
        raise InvalidArgumentError(
            "statistics",
            f"of {models} cells and dimension {model.dim}, as in the plan's model",
            f"{statistics.cells} cells and dimension {statistics.dim}",
        )
    known = whitened(statistics, covariance, model)
    if model.layout == "block":
        known = centred(known)
    late = _outstanding(outstanding, model.conduct.delay)
    past = KnownPast(known.gram, known.moment, common_spread(known, model), late)
    # The sample's rows are in other coordinates than the data, and cannot be used.
    return replace(model, scenarios=learned(known, model, law), weights=(), past=past, rows=None)


def _outstanding(given: Sequence[tuple[int, float]], delay: int) -> tuple[tuple[int, float], ...]:
    """Return the checked batches whose outcomes are still to come."""
    if len(given) > delay:
        raise InvalidArgumentError(
            "outstanding", f"at most {delay} batches, the plan's delay", len(given)
        )
    return tuple(
        (
            arguments.integer("outstanding", units, at_least=0),
            arguments.number("outstanding", share, at_least=0, at_most=1),
        )
        for units, share in given
    )


def request_given(
    before: Plan, model: Model, limits: BatchLimits, numbers: Sequence[int], batches: int | None
) -> Request:
    """Return the request for the rest of an experiment, otherwise like the earlier plan."""
    return Request(
        model=model,
        limits=limits,
        numbers=numbers,
        batches=batches,
        kind="tuned",
        batch_cost=before.batch_cost,
        within=before.within,
        seed=before.seed,
        sample=before.sample,
        law=before.request.law,
    )

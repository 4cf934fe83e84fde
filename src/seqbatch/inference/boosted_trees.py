"""Boosted trees beside the linear rule: whether they would have chosen better, by the log.

A rule by trees gives each unit the action whose boosted trees predict most. Both rules are fitted
to four fifths of the units and compared on the rest, as the rule to run next is compared with
control. Units are sampled, divided into folds and sorted by hashes of their ids, so the answer
depends on the units, not on their order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel
from seqbatch.inference.estimates import estimate_tallies
from seqbatch.inference.evidence import Evidence
from seqbatch.inference.intervals import Interval, estimated, unknown
from seqbatch.inference.logged_units import Rows
from seqbatch.inference.rare_events import PlannedDesign, planned_units_of_next_rule
from seqbatch.inference.rule_value import (
    FOLDS,
    WIDENING,
    GreedyRule,
    RuleOver,
    WithinWaves,
    sums_over,
    supports,
    why_unknown,
    within_waves,
)
from seqbatch.inference.score_sums import ScoreSums
from seqbatch.inference.summary import WaveSummary

# ----------------------------------------------------------------------
# Units with hashes, and a sample of them.


@dataclass(frozen=True, eq=False)
class MarkedRows:
    """Units of one wave with 64 bits of a hash each.

    Parameters
    ----------
    rows
        The units.
    ids
        Hashes of their ids, by which they are sorted.
    clusters
        Hashes of what dependent units have in common, or of their ids again: by these they are
        sampled and divided into folds.
    """

    rows: Rows
    ids: AnyArray
    clusters: AnyArray

    def some(self, among: Bools | Integers) -> "MarkedRows":
        """Return some of the units."""
        return MarkedRows(self.rows.some(among), self.ids[among], self.clusters[among])

    @property
    def folds(self) -> Integers:
        """The fold of each unit."""
        return (self.clusters % np.uint64(FOLDS)).astype(np.int64)


#: About so many units are used at most.
MOST_UNITS = 50_000


def sample(pieces: Iterable[MarkedRows], units: int, *, most: int = MOST_UNITS) -> MarkedRows:
    """Return the units of a wave, or those with small hashes if there are too many, sorted by id.

    Parameters
    ----------
    pieces
        The units of the wave.
    units
        The number of units of all waves together.
    most
        About how many of these to keep.
    """
    bits = min(most / max(units, 1), 1.0) * 2.0**32
    parts = [one.some((one.clusters >> np.uint64(32)).astype(np.float64) < bits) for one in pieces]
    whole = MarkedRows(
        _joined([one.rows for one in parts]),
        np.concatenate([one.ids for one in parts]),
        np.concatenate([one.clusters for one in parts]),
    )
    return whole.some(np.argsort(whole.ids, kind="stable"))


def _joined(parts: Sequence[Rows]) -> Rows:
    """Return all units together, without declared segments."""
    clusters = [one.clusters for one in parts if one.clusters is not None]
    eligible = [one.eligible for one in parts if one.eligible is not None]
    return Rows(
        features=np.concatenate([one.features for one in parts]),
        actions=np.concatenate([one.actions for one in parts]),
        probabilities=np.concatenate([one.probabilities for one in parts]),
        outcomes=np.concatenate([one.outcomes for one in parts]),
        clusters=np.concatenate(clusters) if clusters else None,
        eligible=np.concatenate(eligible) if eligible else None,
    )


# ----------------------------------------------------------------------
# A rule by trees: one boosted model for each action.


#: Small trees that share what they learn: at most three conditions each.
OPTIONS = {"max_iter": 60, "max_depth": 3, "min_samples_leaf": 40, "early_stopping": False,
           "random_state": 0}  # fmt: skip
#: With fewer outcomes, an action keeps the prediction of its linear model.
LEAST_OUTCOMES = 4 * 40


class Predictor(Protocol):
    """A fitted model."""

    def predict(self, features: Floats) -> Floats:
        """Return the predicted outcome of each unit."""


def require_trees() -> Any:
    """Return scikit-learn's ensembles; raise an error that names the extra if it is missing."""
    try:
        from sklearn import ensemble
    except ModuleNotFoundError:
        raise InvalidArgumentError(
            "boosted_trees", "False without scikit-learn", True,
            'Install it with: pip install "seqbatch[trees]".', code="not-installed",
        ) from None  # fmt: skip
    return ensemble


@dataclass(frozen=True, eq=False)
class TreesRule:
    """To each unit the action whose trees predict most.

    Parameters
    ----------
    linear
        The linear rule, which is used for actions with too few outcomes.
    models
        What predicts the outcome of each other action, less the level of the wave.
    charges
        The cost of each action.
    """

    linear: GreedyRule
    models: dict[int, Predictor]
    charges: Floats

    @classmethod
    def fitted(
        cls, waves: Sequence[Rows], linear: GreedyRule, fit: WithinWaves, charges: Floats
    ) -> "TreesRule":
        """Fit the trees to the outcomes of units, wave by wave."""
        ensemble = require_trees()
        features = np.concatenate([rows.features[rows.returned, 1:] for rows in waves])
        actions = np.concatenate([rows.actions[rows.returned] for rows in waves])
        outcomes = np.concatenate([
            rows.outcomes[rows.returned] - level
            for rows, level in zip(waves, fit.levels.tolist(), strict=True)
        ])  # fmt: skip
        models = {}
        for action in np.flatnonzero(linear.known).tolist():
            own = actions == action
            if own.sum() >= LEAST_OUTCOMES:
                model = ensemble.HistGradientBoostingRegressor(**OPTIONS)
                models[action] = model.fit(features[own], outcomes[own])
        return cls(linear, models, charges)

    def actions(self, rows: Rows) -> Integers:
        """Return the action of each unit, among the eligible ones."""
        predictions = self.linear.predictions(rows.features)
        for action, model in self.models.items():
            predictions[:, action] = model.predict(rows.features[:, 1:]) - self.charges[action]
        return self.linear.best(predictions, rows.eligible)


# ----------------------------------------------------------------------
# Both rules on units that neither was fitted to.


ABOUT = "gain of a rule by boosted trees over the linear rule"


@dataclass(frozen=True, kw_only=True)
class TreesBeside:
    """A rule by boosted trees beside the linear rule.

    Parameters
    ----------
    gain
        What it would have brought more, on the units of the last wave, or why that is unknown.
    units
        The number of units used, of all waves.
    differ
        The share of the last wave's units to which the two rules give different actions.
    """

    gain: Interval
    units: int
    differ: float

    def __str__(self) -> str:
        return str(self.gain)


def trees_beside(
    waves: Sequence[MarkedRows],
    summary: WaveSummary,
    *,
    level: float = 0.95,
    less: bool = False,
    among: Bools | None = None,
    design: PlannedDesign | None = None,
) -> TreesBeside:
    """Compare a rule by boosted trees with the linear rule to run next.

    Parameters
    ----------
    waves
        The units of all waves, from :func:`sample`.
    summary
        The summary of the last wave.
    level
        The coverage.
    less
        Whether a lower outcome is better.
    among
        Which actions the rules may give; all by default.
    design
        What was planned for the last wave; without it the rule of events is not applied.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    units, last = sum(one.rows.count for one in waves), waves[-1].rows
    if last.features.shape[1] < 2 or not last.returned.any():
        why = "There are no features." if last.returned.any() else "The last wave has no outcomes."
        return TreesBeside(gain=unknown(ABOUT, level=level, note=why), units=units, differ=0.0)
    parts = [
        _fold(waves, fold, summary, among=among, less=less)
        for fold in range(FOLDS)
        if (waves[-1].folds == fold).any()
    ]
    whole = reduce(ScoreSums.merge, (one.sums for one in parts))
    differ = sum(one.differ for one in parts)
    planned = None
    if design is not None:
        planned = planned_units_of_next_rule(replace(design, units=last.count))
    contrast = _contrast(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    gain = why_unknown(
        ABOUT, whole.units / last.count, whole, summary, level=level, planned=planned,
        beside="the linear rule's",
        same="" if differ else "Both rules give every unit the same action.",
    )  # fmt: skip
    if gain is None:
        tallies = [one.sums for one in parts if one.sums.units]
        gain = estimated(ABOUT, estimate_tallies(whole, tallies, contrast, summary), level=level)
    return TreesBeside(gain=gain, units=units, differ=differ / last.count)


@dataclass(frozen=True, eq=False)
class _Fold:
    """The sums over a fold's units with support, and how many get different actions."""

    sums: ScoreSums
    differ: int


def _fold(
    waves: Sequence[MarkedRows],
    fold: int,
    summary: WaveSummary,
    *,
    among: Bools | None,
    less: bool,
) -> _Fold:
    """Fit both rules to the units outside a fold, and compare them on those of the last wave."""
    others = [one.rows.some(one.folds != fold) for one in waves]
    held = waves[-1].rows.some(waves[-1].folds == fold)
    zero = Evidence.zero(held.actions_number, held.features.shape[1])
    by_wave = [zero.with_rows(rows).statistics for rows in others]
    evidence = reduce(Evidence.with_rows, others, zero)
    linear = GreedyRule.fitted(by_wave, charges=summary.charges, among=among, less=less)
    trees = TreesRule.fitted(others, linear, within_waves(by_wave), summary.charges)
    wanted, instead = trees.actions(held), linear.actions(held.features, held.eligible)
    model = OutcomeModel.fitted(evidence)
    moved = CommonShift.of(by_wave[-1], model)
    both = supports(held.probabilities, wanted, instead)
    sums = sums_over(
        held.some(both), model, moved.total / (moved.outcomes + 1), summary,
        _contrast(wanted[both], instead[both]),
    )  # fmt: skip
    return _Fold(sums, int((wanted != instead).sum()))


def _contrast(wanted: Integers, instead: Integers) -> RuleOver:
    return RuleOver(ABOUT, WIDENING, wanted, instead)

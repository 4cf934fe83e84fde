"""The value of assignment rules: the rule as run, and the rule to run next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom
from seqbatch.inference.doubly_robust_scores import Evidence, OutcomeModel, inverse_weights
from seqbatch.inference.estimates import EQUAL, estimate_tally, pool_by_size
from seqbatch.inference.intervals import Interval, interval_table, quantile, unknown
from seqbatch.inference.logged_units import Rows, ScoreColumns, ScoreSums, Wave, pieces
from seqbatch.inference.summary import WaveSummary

# ----------------------------------------------------------------------
# A rule that says which action a unit gets: the one with the best prediction.


@dataclass(frozen=True, eq=False)
class GreedyRule:
    """To each unit the action with the best prediction, the first among equals.

    Parameters
    ----------
    coefficients
        b_a of each action, shape (K, P).
    known
        Which actions have outcomes; the others are never given.
    less
        Whether a lower outcome is better.
    """

    coefficients: Floats
    known: Bools
    less: bool = False

    @classmethod
    def fitted(cls, evidence: Evidence, *, less: bool = False) -> "GreedyRule":
        """Fit the rule to all outcomes."""
        coefficients = OutcomeModel.fitted(evidence).coefficients
        return cls(coefficients, evidence.statistics.count > 0, less)

    def predictions(self, features: Floats) -> Floats:
        """Return mu_a(x) of every action, shape (n, K)."""
        return features @ self.coefficients.T

    def actions(self, features: Floats, eligible: Bools | None = None) -> Integers:
        """Return the action of each unit, among the eligible ones."""
        allowed = self.known if eligible is None else self.known & eligible
        predictions, never = self.predictions(features), np.inf if self.less else -np.inf
        usable = np.where(allowed, predictions, never)
        best: Integers = usable.argmin(axis=1) if self.less else usable.argmax(axis=1)
        return best


# ----------------------------------------------------------------------
# The rule to run next: for each unit the action that all data predict to be best.
#
# It is evaluated on the last wave, by cross-fitting: each fold with the rule and model fitted to
# all other units. The mean of the largest predictions, or scores of units that the rule was fitted
# to, would be too optimistic.


ABOUT = "gain of the rule to run next over control"
FOLDS = 5
#: A unit supports the rule if its chosen action and control both had at least this probability; at
#: least this share of units must.
LEAST_PROBABILITY, LEAST_SUPPORT = 0.001, 0.95
APPROXIMATE = "Approximate: evaluated on the last wave, by rules fitted to four fifths of it."


@dataclass(frozen=True, kw_only=True)
class NextRule:
    """The rule to run next, with its estimated gain.

    Parameters
    ----------
    rule
        The rule, fitted to all data.
    gain
        Its gain over giving control to all units, or why that is unknown.
    supported
        The share of the last wave's units that could have got both the rule's action and control.
    shares
        The share of the last wave's units that the rule gives each action.
    """

    rule: GreedyRule
    gain: Interval
    supported: float
    shares: tuple[float, ...]

    def tables(self) -> list[Table]:
        """Return the gain, and the share of units that get each action."""
        rows = list(enumerate(self.shares))
        given = Table("What the rule gives", ("action", "share of units"), rows)
        return [interval_table("The rule to run next", [self.gain]), given]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return f"{self.gain} {self.supported:.1%} of the units support the rule."


def judge_next_rule(
    last: Wave, summary: WaveSummary, *, level: float = 0.95, less: bool = False
) -> NextRule:
    """Return the rule that all data suggest, and its gain over control.

    Folds are assigned by position in the wave, or by cluster. A different order of rows gives
    different folds and a slightly different estimate.

    Parameters
    ----------
    last
        The units of the last wave.
    summary
        Its summary.
    level
        The coverage.
    less
        Whether a lower outcome is better.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    others = _other_folds(last, summary.evidence)
    rules = [GreedyRule.fitted(evidence, less=less) for evidence in others]
    judged = reduce(
        _Judged.merge,
        (
            _judge(rows.some(folds == fold), rule, summary)
            for rows, folds in _in_folds(last)
            for fold, rule in enumerate(rules)
        ),
    )
    return NextRule(
        rule=GreedyRule.fitted(summary.evidence, less=less),
        gain=_gain(judged, summary, level),
        supported=judged.support,
        shares=tuple((judged.given / judged.given.sum()).tolist()),
    )


@dataclass(frozen=True, eq=False)
class _Judged:
    """Sums over evaluated units: the actions that the rule gives, and scores if supported."""

    supported: ScoreSums
    given: Integers

    @property
    def support(self) -> float:
        return self.supported.units / int(self.given.sum())

    def merge(self, other: "_Judged") -> "_Judged":
        return _Judged(self.supported.merge(other.supported), self.given + other.given)


def _judge(rows: Rows, rule: GreedyRule, summary: WaveSummary) -> _Judged:
    """Score the rule on units that it was not fitted to.

    s_i = mu_pi - mu_0 + (e_i/(p q)) (1{A_i = pi(x_i)} - 1{A_i = 0}), which is 0 if pi is 0.
    """
    places, wanted = np.arange(rows.count), rule.actions(rows.features, rows.eligible)
    predicted, p = rule.predictions(rows.features), rows.probabilities
    residuals = rows.outcomes - predicted[places, rows.actions]
    corrections = np.where(rows.returned, residuals, 0.0) * inverse_weights(rows, summary.returned)
    signs = (rows.actions == wanted).astype(float) - (rows.actions == 0)
    scores = predicted[places, wanted] - predicted[:, 0] + corrections * signs
    chances = np.minimum(p[places, wanted], p[:, 0])
    supported = (chances >= LEAST_PROBABILITY) | ((wanted == 0) & (p[:, 0] > 0))
    costs = np.zeros(rows.count)
    costly = supported & (wanted != 0)
    costs[costly] = 1 / p[places, wanted][costly] + 1 / p[costly, 0]
    columns = ScoreColumns(rows, scores[:, None], costs[:, None])
    return _Judged(columns.tally(supported), np.bincount(wanted, minlength=rows.actions_number))


def _gain(judged: _Judged, summary: WaveSummary, level: float) -> Interval:
    """Return the interval, or an unknown one if overlap is too small."""
    if judged.support < LEAST_SUPPORT:
        note = (
            f"Only {judged.support:.1%} of the units could have got both the rule's action and "
            f"control (probability {LEAST_PROBABILITY:g} or more); an estimate needs "
            f"{LEAST_SUPPORT:.0%}."
        )
        return unknown(ABOUT, level=level, note=note)
    if not judged.supported.outcomes:
        return unknown(ABOUT, level=level, note="The last wave has no outcomes.")
    if summary.evidence.all_equal:
        return unknown(ABOUT, level=level, note=EQUAL)
    estimate = estimate_tally(judged.supported, 0, about=ABOUT, arms=2, noise=summary.noise)
    return replace(estimate.interval(level), note=APPROXIMATE)


def _in_folds(wave: Wave) -> Iterator[tuple[Rows, Integers]]:
    """Yield each piece with the folds of its units: by position in the wave, or by cluster."""
    first = 0
    for rows in pieces(wave):
        if rows.clusters is None:
            yield rows, np.arange(first, first + rows.count) % FOLDS
        else:
            # Names may have any type; their text is the same in all processes.
            names, places = np.unique(rows.clusters, return_inverse=True)
            marks = [sum(str(name).encode()) % FOLDS for name in names.tolist()]
            yield rows, np.array(marks, dtype=np.int64)[places]
        first += rows.count


def _other_folds(wave: Wave, everything: Evidence) -> list[Evidence]:
    """Return, for each fold, the evidence of all units outside it."""
    zero = Evidence.zero(len(everything.assigned), everything.statistics.dim)
    inside = [zero] * FOLDS
    for rows, folds in _in_folds(wave):
        for fold in range(FOLDS):
            inside[fold] = inside[fold].with_rows(rows.some(folds == fold))
    return [everything.without(fold) for fold in inside]


# ----------------------------------------------------------------------
# The value of the campaign as run, and its gains over simpler assignments.


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """The value of the rule as run.

    Parameters
    ----------
    value
        The mean outcome as run.
    over_actions
        The gain over giving each single action to all units.
    over_random
        The gain over assigning every unit uniformly at random.
    over_best
        The gain over the best single action, which is unknown.
    """

    value: Interval
    over_actions: tuple[Interval, ...]
    over_random: Interval
    over_best: Interval

    def tables(self) -> list[Table]:
        """Return value and gains as one table."""
        rows = [self.value, self.over_random, *self.over_actions, self.over_best]
        return [interval_table("The campaign as run", rows)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return "\n".join(map(str, (self.value, self.over_random, self.over_best)))


def run_value(summaries: Sequence[WaveSummary], *, level: float = 0.95) -> RunValue:
    """Return the value of the campaign as run, and its gains.

    Parameters
    ----------
    summaries
        The waves, from :func:`summarise`.
    level
        The coverage.
    """
    actions = range(len(summaries[0].evidence.assigned))
    gains = tuple(pool_by_size(summaries, Gain(action), level=level) for action in actions)
    return RunValue(
        value=pool_by_size(summaries, AsRun(), level=level),
        over_actions=gains,
        over_random=pool_by_size(summaries, GainOverRandom(), level=level),
        over_best=gain_over_best(gains, level=level),
    )


def gain_over_best(
    gains: Sequence[Interval], *, level: float = 0.95, less: bool = False
) -> Interval:
    """Return [min_a L_a at alpha/2, min_a U_a at alpha/(2K)]: which action is best is not known.

    The lower bound needs no correction: the gain over the best action is at least min_a L_a
    whenever that action's own bound holds. The upper bound picks the lowest of K, and pays for it.
    Where a lower outcome is better, it is the highest gain, and the bounds change places.

    Parameters
    ----------
    gains
        The gain over each action.
    level
        The coverage.
    less
        Whether a lower outcome is better.
    """
    about = "gain of the run over the best single action"
    if lacking := [gain for gain in gains if not gain.known]:
        return unknown(about, level=level, note=lacking[0].note)
    tail, worst = (1 - level) / 2, max if less else min
    least = worst(gains, key=lambda gain: gain.estimate)
    # Of the two bounds, the one on the better side picks one of K.
    below, above = (tail / len(gains), tail) if less else (tail, tail / len(gains))
    leans = ("highest", "upwards") if less else ("lowest", "downwards")
    return Interval(
        about=about,
        estimate=least.estimate,
        error=least.error,
        df=least.df,
        level=level,
        low=worst(one.estimate - quantile(below, one.df) * one.error for one in gains),
        high=worst(one.estimate + quantile(above, one.df) * one.error for one in gains),
        note="The estimate is the {} of several, so it is biased {}; the interval is not.".format(
            *leans
        ),
    )

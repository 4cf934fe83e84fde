"""Assignment rules and their value: the rule as run, and the rule to run next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import AsRun, Gain, GainOverRandom
from seqbatch.inference.estimates import EQUAL, estimate_tally, pool_by_size
from seqbatch.inference.intervals import Interval, interval_table, quantile, unknown
from seqbatch.inference.model import Evidence, OutcomeModel, inverse_weights
from seqbatch.inference.rows import Rows, ScoreColumns, ScoreSums, Wave, pieces
from seqbatch.inference.summary import WaveSummary

# ----------------------------------------------------------------------
# A rule that says which action a unit gets: the one with the highest prediction.


@dataclass(frozen=True, eq=False)
class GreedyRule:
    """To each unit the action with the highest prediction, the lowest among equals.

    Parameters
    ----------
    coefficients
        b_a of each action, shape (K, P).
    known
        Which actions have outcomes; the others are never given.
    """

    coefficients: Floats
    known: Bools

    @classmethod
    def fitted(cls, evidence: Evidence) -> "GreedyRule":
        """Fit the rule to all outcomes."""
        return cls(OutcomeModel.fitted(evidence).coefficients, evidence.statistics.count > 0)

    def predictions(self, features: Floats) -> Floats:
        """Return mu_a(x) of every action, shape (n, K)."""
        return features @ self.coefficients.T

    def actions(self, features: Floats, eligible: Bools | None = None) -> Integers:
        """Return the action of each unit, among those that it may get."""
        allowed = self.known if eligible is None else self.known & eligible
        usable = np.where(allowed, self.predictions(features), -np.inf)
        best: Integers = usable.argmax(axis=1)
        return best


# ----------------------------------------------------------------------
# The rule to run next: to each unit the action that all data say is best for it.
#
# It is judged on the last wave alone, in folds: each fold by the rule and the model that were
# fitted to all other units. Neither the mean of the largest predictions nor scores of units that
# the rule was fitted to will do: both believe their own luck.


ABOUT = "gain of the rule to run next over control"
FOLDS = 5
#: A unit supports the rule if its action and control had this probability; so many units must.
LEAST_PROBABILITY, LEAST_SUPPORT = 0.001, 0.95
APPROXIMATE = "Approximate: it is judged on the last wave, by rules fitted to four fifths of it."


@dataclass(frozen=True, kw_only=True)
class NextRule:
    """The rule to run next, judged.

    Parameters
    ----------
    rule
        Fitted to all data.
    gain
        Its gain over giving control to all, or why that is not known.
    supported
        The share of the last wave's units that could have got what the rule wants, and control.
    shares
        The share of the last wave's units that the rule gives each action.
    """

    rule: GreedyRule
    gain: Interval
    supported: float
    shares: tuple[float, ...]

    def tables(self) -> list[Table]:
        """Return the gain, and who gets what."""
        rows = list(enumerate(self.shares))
        given = Table("What the rule gives", ("action", "share of units"), rows)
        return [interval_table("The rule to run next", [self.gain]), given]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        return f"{self.gain} {self.supported:.1%} of the units support the rule."


def judge_next_rule(last: Wave, summary: WaveSummary, *, level: float = 0.95) -> NextRule:
    """Return the rule that all data suggest, and its gain over control.

    Rows are put in folds by their place in the wave, or by their cluster. In another order the
    folds differ, and the estimate a little.

    Parameters
    ----------
    last
        The units of the last wave.
    summary
        Its summary.
    level
        The coverage.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    rules = [GreedyRule.fitted(evidence) for evidence in _other_folds(last, summary.evidence)]
    judged = reduce(
        _Judged.merge,
        (
            _judge(rows.some(folds == fold), rule, summary)
            for rows, folds in _in_folds(last)
            for fold, rule in enumerate(rules)
        ),
    )
    return NextRule(
        rule=GreedyRule.fitted(summary.evidence),
        gain=_gain(judged, summary, level),
        supported=judged.support,
        shares=tuple((judged.given / judged.given.sum()).tolist()),
    )


@dataclass(frozen=True, eq=False)
class _Judged:
    """Sums over units that were judged: what the rule gives them, and scores where supported."""

    supported: ScoreSums
    given: Integers

    @property
    def support(self) -> float:
        return self.supported.units / int(self.given.sum())

    def merge(self, other: "_Judged") -> "_Judged":
        return _Judged(self.supported.merge(other.supported), self.given + other.given)


def _judge(rows: Rows, rule: GreedyRule, summary: WaveSummary) -> _Judged:
    """Score the rule on units that it was not fitted to.

    s_i = mu_pi - mu_0 + (e_i/(p q)) (1{A_i = pi(x_i)} - 1{A_i = 0}), which is 0 where pi is 0.
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
    """Return the interval, or refuse where overlap is missing."""
    if judged.support < LEAST_SUPPORT:
        note = (
            f"Refused: {judged.support:.1%} of the units could have got both what the rule wants "
            f"and control (probability {LEAST_PROBABILITY:g} or more); {LEAST_SUPPORT:.0%} must."
        )
        return unknown(ABOUT, level=level, note=note)
    if not judged.supported.outcomes:
        return unknown(ABOUT, level=level, note="No outcome of the last wave came back.")
    if summary.evidence.all_equal:
        return unknown(ABOUT, level=level, note=EQUAL)
    made = estimate_tally(judged.supported, 0, about=ABOUT, arms=2, noise=summary.noise)
    return replace(made.interval(level), note=APPROXIMATE)


def _in_folds(wave: Wave) -> Iterator[tuple[Rows, Integers]]:
    """Yield each piece with the folds of its units: by place in the wave, or by cluster."""
    first = 0
    for rows in pieces(wave):
        if rows.clusters is None:
            yield rows, np.arange(first, first + rows.count) % FOLDS
        else:
            # Of any type; what all processes agree on is how a name is written.
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
# What the campaign brought as it was run, and what it gained over simpler ways.


@dataclass(frozen=True, kw_only=True)
class RunValue:
    """The value of the rule as run.

    Parameters
    ----------
    value
        The mean outcome as run.
    over_actions
        The gain over giving one action to all, for each action.
    over_random
        The gain over assigning every unit uniformly at random.
    over_best
        The gain over the best single action, whichever that is.
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
    """Return what the campaign brought as run, and its gains.

    Parameters
    ----------
    summaries
        The waves, as :func:`summarise` returns them.
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


def gain_over_best(gains: Sequence[Interval], *, level: float = 0.95) -> Interval:
    """Return [min_a L_a at alpha/2, min_a U_a at alpha/(2K)]: which action is best is not known.

    The lower bound needs no correction: the gain over the best action is at least min_a L_a
    whenever that action's own bound holds. The upper bound picks the lowest of K, and pays for it.

    Parameters
    ----------
    gains
        The gain over each action.
    level
        The coverage.
    """
    about = "gain of the run over the best single action"
    if lacking := [gain for gain in gains if not gain.known]:
        return unknown(about, level=level, note=lacking[0].note)
    tail = (1 - level) / 2
    least = min(gains, key=lambda gain: gain.estimate)
    return Interval(
        about=about,
        estimate=least.estimate,
        error=least.error,
        df=least.df,
        level=level,
        low=min(one.estimate - quantile(tail, one.df) * one.error for one in gains),
        high=min(one.estimate + quantile(tail / len(gains), one.df) * one.error for one in gains),
        note="The estimate is the lowest of several and leans downward; the interval does not.",
    )

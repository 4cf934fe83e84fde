"""The rule to run next: to each unit the action that all data say is best for it.

It is judged on the last wave alone, in folds: each fold by the rule and the model that were fitted
to all other units. Neither the mean of the largest predictions nor scores of units that the rule
was fitted to will do: both believe their own luck.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Integers
from seqbatch.display import Table, shown
from seqbatch.inference.intervals import Interval, interval_table, unknown
from seqbatch.inference.model import Evidence
from seqbatch.inference.pooling import EQUAL
from seqbatch.inference.rows import Rows, Wave, pieces
from seqbatch.inference.rule import GreedyRule
from seqbatch.inference.scores import inverse_weights
from seqbatch.inference.summary import WaveSummary
from seqbatch.inference.tally import Columns, Tally
from seqbatch.inference.wave_estimate import estimate_tally

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

    supported: Tally
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
    columns = Columns(rows, scores[:, None], costs[:, None])
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

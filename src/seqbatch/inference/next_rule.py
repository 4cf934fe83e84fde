"""The rule to run next: to each unit the action that all data say is best for it.

It is judged on the last wave alone, in folds: each fold by the rule and the model that were fitted
to all other units. Neither the mean of the largest predictions nor scores of units that the rule
was fitted to will do: both believe their own luck.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import Bools, Integers
from seqbatch.display import Table, shown
from seqbatch.inference.intervals import Interval, interval_table, student, unknown
from seqbatch.inference.model import Evidence
from seqbatch.inference.moments import Moments
from seqbatch.inference.rows import Rows, Wave, pieces
from seqbatch.inference.rule import GreedyRule
from seqbatch.inference.scores import inverse_weights
from seqbatch.inference.summary import WaveSummary
from seqbatch.inference.wave_estimate import degrees_of_freedom, moderated

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
    judged = _Judged.nobody(len(summary.evidence.assigned))
    for rows, folds in _in_folds(last):
        for fold, rule in enumerate(rules):
            judged = judged.merge(_judge(_some(rows, folds == fold), rule, summary))
    return NextRule(
        rule=GreedyRule.fitted(summary.evidence),
        gain=_gain(judged, summary, level),
        supported=judged.support,
        shares=tuple((judged.given / judged.given.sum()).tolist()),
    )


@dataclass(frozen=True, eq=False)
class _Judged:
    """Sums over units that were judged; moments, costs and outcomes of those with support."""

    moments: Moments
    costs: float
    outcomes: int
    given: Integers

    @classmethod
    def nobody(cls, actions: int) -> "_Judged":
        return cls(Moments.of(np.empty((0, 1))), 0.0, 0, np.zeros(actions, dtype=np.int64))

    @property
    def support(self) -> float:
        return self.moments.count / int(self.given.sum())

    def merge(self, other: "_Judged") -> "_Judged":
        return _Judged(
            self.moments.merge(other.moments),
            self.costs + other.costs,
            self.outcomes + other.outcomes,
            self.given + other.given,
        )


def _judge(rows: Rows, rule: GreedyRule, summary: WaveSummary) -> _Judged:
    """Score the rule on units that it was not fitted to.

    s_i = mu_pi - mu_0 + (e_i/(p q)) (1{A_i = pi(x_i)} - 1{A_i = 0}), which is 0 where pi is 0.
    """
    places, wanted = np.arange(rows.count), rule.actions(rows.features)
    predicted, p = rule.predictions(rows.features), rows.probabilities
    residuals = rows.outcomes - predicted[places, rows.actions]
    corrections = np.where(rows.returned, residuals, 0.0) * inverse_weights(rows, summary.returned)
    signs = (rows.actions == wanted).astype(float) - (rows.actions == 0)
    scores = predicted[places, wanted] - predicted[:, 0] + corrections * signs
    chances = np.minimum(p[places, wanted], p[:, 0])
    supported = (chances >= LEAST_PROBABILITY) | (wanted == 0)
    costs = (1 / p[places, wanted][supported] + 1 / p[supported, 0]) * (wanted[supported] != 0)
    return _Judged(
        Moments.of(scores[supported, None]),
        float(costs.sum()),
        int(rows.returned[supported].sum()),
        np.bincount(wanted, minlength=rows.actions_number),
    )


def _gain(judged: _Judged, summary: WaveSummary, level: float) -> Interval:
    """Return the interval, or refuse where overlap is missing."""
    if judged.support < LEAST_SUPPORT:
        note = (
            f"Refused: {judged.support:.1%} of the units could have got both what the rule wants "
            f"and control (probability {LEAST_PROBABILITY:g} or more); {LEAST_SUPPORT:.0%} must."
        )
        return unknown(ABOUT, level=level, note=note)
    if not judged.outcomes:
        return unknown(ABOUT, level=level, note="No outcome of the last wave came back.")
    units = judged.moments.count
    returned, cost = judged.outcomes / units, judged.costs / units
    # Where the rule gives control to all, there is neither a gain nor doubt about it.
    effective = 4 * returned * units / cost if cost else float(units)
    df = degrees_of_freedom(units, float(judged.moments.kurtosis[0]), effective)
    raw = float(judged.moments.variance[0] / units)
    variance = moderated(raw, df, summary.noise * cost / (returned * units))
    theta = float(judged.moments.mean[0])
    return student(ABOUT, theta, variance, df, level=level, note=APPROXIMATE)


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
            inside[fold] = inside[fold].with_rows(_some(rows, folds == fold))
    return [everything.without(fold) for fold in inside]


def _some(rows: Rows, among: Bools) -> Rows:
    return Rows(
        rows.features[among], rows.actions[among], rows.probabilities[among], rows.outcomes[among]
    )

"""The value of assignment rules: the rule as run, and the rule to run next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from seqbatch.core import Statistics, arguments
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.core.joint_regression import JointSums, free_levels, inverse
from seqbatch.document import Table, shown
from seqbatch.inference.contrasts import AsRun, Contrast, DesignTerms, Gain, GainOverRandom
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel
from seqbatch.inference.estimates import EQUAL, estimate_tallies, pool_by_size
from seqbatch.inference.evidence import Evidence, penalty
from seqbatch.inference.intervals import Estimated, Interval, estimated, interval_table, unknown
from seqbatch.inference.logged_units import Rows, Wave, pieces
from seqbatch.inference.rare_events import PlannedDesign, few_events, planned_units
from seqbatch.inference.return_model import own_chances
from seqbatch.inference.score_sums import ScoreColumns, ScoreSums, Weighing
from seqbatch.inference.summary import WaveSummary, statistics_by_wave

# ----------------------------------------------------------------------
# A rule that says which action a unit gets: the one with the best prediction.


@dataclass(frozen=True, eq=False)
class GreedyRule:
    """To each unit the action with the best prediction, the first among equals.

    Parameters
    ----------
    coefficients
        b_a of each action less its cost, shape (K, P).
    known
        Which actions have outcomes and may be given; the others are never given.
    less
        Whether a lower outcome is better.
    """

    coefficients: Floats
    known: Bools
    less: bool = False

    @classmethod
    def fitted(
        cls,
        waves: Sequence[Statistics],
        *,
        charges: Floats | None = None,
        among: Bools | None = None,
        less: bool = False,
    ) -> GreedyRule:
        """Fit the rule to the outcomes of all waves, each with its own level.

        Parameters
        ----------
        waves
            The sums over each wave's units with outcomes.
        charges
            The cost of each action; none by default.
        among
            The actions that the rule may give; all by default.
        less
            Whether a lower outcome is better.
        """
        coefficients = within_waves(waves).coefficients
        if charges is not None:
            coefficients[:, 0] -= charges
        known = np.sum([wave.count for wave in waves], axis=0) > 0
        return cls(coefficients, known if among is None else known & among, less)

    def predictions(self, features: Floats) -> Floats:
        """Return mu_a(x) of every action, shape (n, K)."""
        return features @ self.coefficients.T

    def actions(self, features: Floats, eligible: Bools | None = None) -> Integers:
        """Return the action of each unit, among the eligible ones."""
        return self.best(self.predictions(features), eligible)

    def best(self, predictions: Floats, eligible: Bools | None = None) -> Integers:
        """Return the action with the best of these predictions, among the eligible ones."""
        allowed = self.known if eligible is None else self.known & eligible
        never = np.inf if self.less else -np.inf
        usable = np.where(allowed, predictions, never)
        best: Integers = usable.argmin(axis=1) if self.less else usable.argmax(axis=1)
        return best


@dataclass(frozen=True, eq=False)
class WithinWaves:
    """A ridge regression per action, with a level for each wave that all actions share.

    Parameters
    ----------
    coefficients
        b_a of each action, shape (K, P); constants hold the mean level of all outcomes.
    levels
        How far each wave's level is from that mean.
    """

    coefficients: Floats
    levels: Floats


def within_waves(waves: Sequence[Statistics]) -> WithinWaves:
    """Fit the outcomes of all waves such that actions are compared within waves.

    A constant that is added to all outcomes of one wave adds the same to every action's constant,
    and changes nothing else.

    Parameters
    ----------
    waves
        The sums over each wave's units with outcomes; column 0 is the constant.
    """
    sums = JointSums.of(waves, constant=0, levels=range(len(waves)))
    inner = inverse(sums.gram + penalty(sums.dim))
    levels, _ = free_levels(sums, inner)
    coefficients = np.einsum("kpq,kq->kp", inner, sums.without_levels(levels).moment)
    outcomes = sums.level_count.sum(axis=0)
    mean = float(outcomes @ levels / max(outcomes.sum(), 1))
    coefficients[:, 0] += mean
    return WithinWaves(coefficients, levels - mean)


# ----------------------------------------------------------------------
# One rule compared with another, on units that could have got the actions of both.


#: A unit supports a comparison if both rules' actions had at least this probability; at least this
#: share of units must.
LEAST_PROBABILITY, LEAST_SUPPORT = 0.001, 0.95


@dataclass(frozen=True, eq=False)
class RuleOver:
    """The contrast of each unit's action under a rule with its action under another one.

    Parameters
    ----------
    name
        Its name.
    widening
        The factor on the variance that the choice of the rule requires.
    wanted, instead
        The actions of both rules, for each unit.
    """

    name: str
    widening: float
    wanted: Integers
    instead: Integers
    arms: ClassVar[int] = 2

    def coefficients(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Return 1 for the rule's action and 1 for the other's, unless they are the same."""
        more, less = np.zeros_like(probabilities), np.zeros_like(probabilities)
        other = np.flatnonzero(self.wanted != self.instead)
        more[other, self.wanted[other]] = 1.0
        less[other, self.instead[other]] = 1.0
        return more, less

    def design(self, terms: DesignTerms) -> Floats:
        """Return the sums by part and action."""
        return terms.of_units(self.coefficients(terms.probabilities))

    def costs(self, probabilities: Floats) -> Floats:
        """Return 1/p of both actions, unless they are the same."""
        more, less = self.coefficients(probabilities)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(more + less > 0, 1 / probabilities, 0.0)
        total: Floats = terms.sum(axis=1)
        return total


def supports(probabilities: Floats, wanted: Integers, instead: Integers) -> Bools:
    """Return which units could have got the action of either rule."""
    every = np.arange(len(wanted))
    one, other = probabilities[every, wanted], probabilities[every, instead]
    found: Bools = (np.minimum(one, other) >= LEAST_PROBABILITY) | (
        (wanted == instead) & (other > 0)
    )
    return found


# ----------------------------------------------------------------------
# The rule to run next: for each unit the action that all data predict to be best.
#
# It is evaluated on the last wave, by cross-fitting: each fold with the rule and model fitted to
# all other units. The mean of the largest predictions, or scores of units that the rule was fitted
# to, would be too optimistic.


ABOUT = "gain of the rule to run next over control"
FOLDS = 5
#: Folds share the data that choose the rule.
WIDENING = 1.3
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
    last: Wave,
    summaries: Sequence[WaveSummary],
    *,
    level: float = 0.95,
    less: bool = False,
    among: Bools | None = None,
    planned: float | None = None,
    over: int = 0,
) -> NextRule:
    """Return the rule that all data suggest, and its gain over one action for all units.

    Folds are assigned by the units' marks. Without marks they are assigned by cluster, or by
    position in the wave: a different order of rows then gives a slightly different estimate.

    Parameters
    ----------
    last
        The units of the last wave.
    summaries
        The summaries of all waves.
    level
        The coverage.
    less
        Whether a lower outcome is better.
    among
        Which actions the rule may give; all by default.
    planned
        The planned effective units, from
        :func:`~seqbatch.inference.rare_events.planned_units_of_next_rule`; if events are too few
        for them, the gain is unknown. None does without this rule.
    over
        The action to compare with; control by default.
    """
    arguments.number("level", level, above=0, at_most=1 - 1e-9)
    summary, waves = summaries[-1], statistics_by_wave(summaries)
    inside = _folds(last, summary.evidence)
    judges = [
        RuleJudge.of(
            summary.evidence,
            waves,
            fold,
            charges=summary.charges,
            among=among,
            less=less,
            over=over,
        )
        for fold in inside
    ]
    judged: list[JudgedRule | None] = [None] * FOLDS
    for rows, folds in _in_folds(last):
        for fold, judge in enumerate(judges):
            made, before = judge.judged(rows.some(folds == fold), summary), judged[fold]
            judged[fold] = made if before is None else before.merge(made)
    done = [one for one in judged if one is not None]
    return next_rule_of(
        done, summaries, level=level, less=less, among=among, planned=planned, over=over
    )


def next_rule_of(
    done: Sequence[JudgedRule],
    summaries: Sequence[WaveSummary],
    *,
    level: float = 0.95,
    less: bool = False,
    among: Bools | None = None,
    planned: float | None = None,
    over: int = 0,
) -> NextRule:
    """Return the rule, and its gain from the sums over each fold of the last wave.

    See :func:`judge_next_rule`.
    """
    summary, waves = summaries[-1], statistics_by_wave(summaries)
    whole = reduce(JudgedRule.merge, done)
    return NextRule(
        rule=GreedyRule.fitted(waves, charges=summary.charges, among=among, less=less),
        gain=_gain(whole, done, summary, level, planned, over),
        supported=whole.support,
        shares=tuple((whole.given / whole.given.sum()).tolist()),
    )


@dataclass(frozen=True, eq=False)
class JudgedRule:
    """Sums over the units of a fold.

    Parameters
    ----------
    supported
        The sums of the rule's contrast, over units that could have got both actions.
    given
        How many units the rule gives each action.
    """

    supported: ScoreSums
    given: Integers

    @property
    def support(self) -> float:
        """The share of units that could have got both actions."""
        return self.supported.units / int(self.given.sum())

    def merge(self, other: JudgedRule) -> JudgedRule:
        """Return the sums over both sets of units."""
        return JudgedRule(self.supported.merge(other.supported), self.given + other.given)


@dataclass(frozen=True, eq=False)
class RuleJudge:
    """What judges the rule on the units of a fold.

    Parameters
    ----------
    rule, model, shift
        The rule, the model and the common shift, fitted to all units outside the fold.
    over
        The action that the rule is compared with.
    """

    rule: GreedyRule
    model: OutcomeModel
    shift: float
    over: int

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        waves: Sequence[Statistics],
        fold: Evidence,
        *,
        charges: Floats,
        among: Bools | None,
        less: bool,
        over: int = 0,
    ) -> RuleJudge:
        """Fit them to all evidence but a fold's; `waves` are the sums over each wave's units."""
        model = OutcomeModel.fitted(evidence.without(fold))
        last = waves[-1].subtract(fold.statistics)
        moved = CommonShift.of(last, model)
        others = [*waves[:-1], last]
        return cls(
            GreedyRule.fitted(others, charges=charges, among=among, less=less),
            model,
            moved.total / (moved.outcomes + 1),
            over,
        )

    def judged(self, rows: Rows, summary: WaveSummary) -> JudgedRule:
        """Score the rule on units of the fold; those without support are only counted."""
        wanted = self.rule.actions(rows.features, rows.eligible)
        given = np.bincount(wanted, minlength=rows.actions_number)
        supported = supports(rows.probabilities, wanted, np.full_like(wanted, self.over))
        contrast = _over(wanted[supported], self.over)
        sums = sums_over(rows.some(supported), self.model, self.shift, summary, contrast)
        return JudgedRule(sums, given)


def sums_over(
    rows: Rows, model: OutcomeModel, shift: float, summary: WaveSummary, contrast: Contrast
) -> ScoreSums:
    """Return the sums of a contrast over units that the model was not fitted to.

    Parameters
    ----------
    rows
        The units.
    model, shift
        The model, and the common shift of the wave.
    summary
        The wave's summary.
    contrast
        The contrast.
    """
    q, back = summary.returned.of(rows), rows.returned
    values = model.predictions(rows) + shift
    own = values[np.arange(rows.count), rows.actions]
    corrections = (rows.outcomes - own) / own_chances(rows, q)
    values[back, rows.actions[back]] += corrections[back]
    weighing = Weighing.of(rows, [contrast])
    return ScoreColumns.of(weighing, values, q, usual=summary.usual).tally()


def _gain(
    whole: JudgedRule,
    folds: Sequence[JudgedRule],
    summary: WaveSummary,
    level: float,
    planned: float | None,
    over: int,
) -> Interval:
    """Return the interval, or an unknown one if overlap or events are too few."""
    beside = "control" if over == 0 else "the action it is compared with"
    others = np.delete(whole.given, over).any()
    same = "" if others else f"The rule gives {beside} to every unit."
    about = _about(over)
    asked = (about, whole.support, whole.supported, summary)
    why = why_unknown(*asked, level=level, planned=planned, same=same, beside=beside)
    if why is not None:
        return why
    contrast = _over(np.zeros(0, dtype=np.int64), over)
    tallies = [one.supported for one in folds if one.supported.units]
    estimate = estimate_tallies(whole.supported, tallies, contrast, summary)
    return estimated(about, estimate, level=level, note=APPROXIMATE)


def why_unknown(
    about: str,
    support: float,
    sums: ScoreSums,
    summary: WaveSummary,
    *,
    level: float,
    planned: float | None,
    beside: str = "control",
    same: str = "",
) -> Interval | None:
    """Return an unknown interval with the reason if overlap or events are too few, else None.

    Parameters
    ----------
    about
        What is unknown.
    support
        The share of units that could have got both actions.
    sums, summary
        The sums over these units, and the wave's summary.
    level, planned
        See :func:`judge_next_rule`.
    beside
        The action that the rule's is compared with.
    same
        Why there is no difference, if there is none.
    """
    if support < LEAST_SUPPORT:
        note = (
            f"Only {support:.1%} of the units could have got both the rule's action and "
            f"{beside} (probability {LEAST_PROBABILITY:g} or more); an estimate needs "
            f"{LEAST_SUPPORT:.0%}."
        )
        return unknown(about, level=level, note=note)
    if not sums.outcomes:
        return unknown(about, level=level, note="The last wave has no outcomes.")
    if summary.evidence.all_equal:
        return unknown(about, level=level, note=EQUAL)
    if same:
        return unknown(about, level=level, note=same)
    if planned is not None:
        back = summary.evidence.share_returned
        if (few := few_events(summary.events, planned, share_returned=back)) is not None:
            return unknown(about, level=level, note=str(few), few=few)
    return None


def _over(wanted: Integers, over: int) -> RuleOver:
    return RuleOver(_about(over), WIDENING, wanted, np.full_like(wanted, over))


def _about(over: int) -> str:
    return ABOUT if over == 0 else f"gain of the rule to run next over action {over}"


def _in_folds(wave: Wave) -> Iterator[tuple[Rows, Integers]]:
    """Yield each piece with the folds of its units: by mark, by cluster, or by position."""
    first = 0
    for rows in pieces(wave):
        if rows.marks is not None:
            yield rows, rows.marks % FOLDS
        elif rows.clusters is None:
            yield rows, np.arange(first, first + rows.count) % FOLDS
        else:
            # Names may have any type; their text is the same in all processes.
            names, places = np.unique(rows.clusters, return_inverse=True)
            marks = [sum(str(name).encode()) % FOLDS for name in names.tolist()]
            yield rows, np.array(marks, dtype=np.int64)[places]
        first += rows.count


def _folds(wave: Wave, everything: Evidence) -> list[Evidence]:
    """Return the evidence of the units in each fold."""
    zero = Evidence.zero(len(everything.zeros), everything.statistics.dim)
    inside = [zero] * FOLDS
    for rows, folds in _in_folds(wave):
        for fold in range(FOLDS):
            inside[fold] = inside[fold].with_rows(rows.some(folds == fold))
    return inside


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


def run_value(
    summaries: Sequence[WaveSummary],
    *,
    level: float = 0.95,
    planned: Sequence[PlannedDesign] = (),
) -> RunValue:
    """Return the value of the campaign as run, and its gains.

    Parameters
    ----------
    summaries
        The waves, from :func:`summarise`.
    level
        The coverage.
    planned
        What was planned for each wave, from a plan of shares: if events are too few, there is no
        interval. Without it this rule is not applied.
    """
    actions = range(len(summaries[0].evidence.zeros))

    def pooled(contrast: Contrast) -> Interval:
        units = planned_units(planned, contrast) if planned else None
        return pool_by_size(summaries, contrast, level=level, planned=units)

    gains = tuple(pooled(Gain(action)) for action in actions)
    return RunValue(
        value=pooled(AsRun()),
        over_actions=gains,
        over_random=pooled(GainOverRandom()),
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
    known = [gain for gain in gains if isinstance(gain, Estimated)]
    if len(known) < len(gains):
        lacking = next(gain for gain in gains if not isinstance(gain, Estimated))
        return unknown(about, level=level, note=lacking.note, few=lacking.few)
    tail, worst = (1 - level) / 2, max if less else min
    least = worst(known, key=lambda gain: gain.estimate)
    # Of the two bounds, the one on the better side picks one of K.
    below, above = (tail / len(gains), tail) if less else (tail, tail / len(gains))
    leans = ("highest", "upwards") if less else ("lowest", "downwards")
    return Interval(
        about=about,
        estimate=least.estimate,
        error=least.error,
        df=least.df,
        level=level,
        low=worst(one.limits(below)[0] for one in known),
        high=worst(one.limits(above)[1] for one in known),
        statistic=least.statistic,
        note="The estimate is the {} of several, so it is biased {}; the interval is not.".format(
            *leans
        ),
    )

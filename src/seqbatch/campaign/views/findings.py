"""Findings: a campaign's estimates with intervals, its metrics, and data quality."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

from seqbatch.campaign.decide.action_counts import SMALL
from seqbatch.campaign.decide.stopping import END, LookTaken
from seqbatch.campaign.record.current_situation import HARM, SUCCESS, Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.spec.measure import Measure
from seqbatch.campaign.views.action_differences import FeatureDifference
from seqbatch.campaign.views.boosted_trees import TreesAnswer, trees_sentences
from seqbatch.campaign.views.conditional_powers import ConditionalPower, conditional_table
from seqbatch.campaign.views.decision import CampaignDecision, decided
from seqbatch.campaign.views.findings_text import basis, details, remarks, tables
from seqbatch.campaign.views.lift_pictures import lift_pictures
from seqbatch.campaign.views.metrics import MetricAnswer, guardrail_codes
from seqbatch.campaign.views.recommendation import Recommendation, best_given
from seqbatch.campaign.views.selected_action import SelectedAnswer
from seqbatch.campaign.views.tree import TreeAnswer, tree_sentences, tree_tables
from seqbatch.display import sentence
from seqbatch.document import Document, Heading, Part, Section, Table, as_notebook
from seqbatch.errors import Doubt
from seqbatch.inference import Guarded, Interval

# ----------------------------------------------------------------------
# Data quality by wave.


@dataclass(frozen=True, kw_only=True)
class WaveQuality:
    """Counts and tests of a closed wave, as of its closing.

    Parameters
    ----------
    wave
        Its number.
    assigned, observed, absent
        Numbers of units, recorded outcomes, and units counted as absent, by action.
    expected
        Expected number of units by action, from the logged probabilities.
    allocation_p, missing_p
        p-values of the sample-ratio test, and of the test that outcomes are missing equally often
        under every action; None if there was nothing to test.
    waiting
        Whether units without an outcome did not count as absent yet.
    """

    wave: int
    assigned: dict[str, int]
    observed: dict[str, int]
    absent: dict[str, int]
    expected: dict[str, float]
    allocation_p: float | None
    missing_p: float | None
    waiting: bool = False

    @property
    def units(self) -> int:
        """The number of units."""
        return sum(self.assigned.values())

    @property
    def outcomes(self) -> int:
        """The number of recorded outcomes."""
        return sum(self.observed.values())

    def missing_share(self, action: str) -> float | None:
        """The share of an action's units whose outcome is missing; absent units are not missing."""
        units = self.assigned.get(action, 0)
        gone = units - self.observed.get(action, 0) - self.absent.get(action, 0)
        return gone / units if units else None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Data quality of all waves: counts by wave, clipped values, and held rows.

    Parameters
    ----------
    waves
        The closed waves.
    clipped
        How many values of each column were clipped to a bound.
    conflicts, quarantined
        Numbers of outcome rows that are held.
    doubts
        Metrics without any value in a wave, by which all of its units count as absent.
    """

    waves: tuple[WaveQuality, ...]
    clipped: dict[str, int]
    conflicts: int
    quarantined: int
    doubts: tuple[Doubt, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the problems to look into before you trust any result."""
        said = [sentence(each.text()) for each in self.doubts]
        for one in self.waves:
            if one.allocation_p is not None and one.allocation_p < SMALL:
                said.append(
                    f"Wave {one.wave}: the actions' shares do not match the logged probabilities "
                    f"(p = {one.allocation_p:.1g}). Do not trust any result until you know why."
                )
            # Units that are waited for are those without a purchase: actions are meant to differ.
            if one.missing_p is not None and one.missing_p < SMALL and not one.waiting:
                said.append(
                    f"Wave {one.wave}: when it was closed, outcomes were missing more often under "
                    f"some actions than under others (p = {one.missing_p:.1g}). If missingness "
                    "depends on the outcome, the lifts are biased."
                )
        return tuple(said)


def quality(now: Situation, events: Sequence[Event], doubts: tuple[Doubt, ...] = ()) -> Quality:
    """Collect the counts and tests that each closing stored."""
    found = []
    unmasked = [event.payload["codes"] for event in events if event.kind == "unmask"]
    codes: dict[str, str] = unmasked[0] if unmasked else {}
    for event in events:
        if event.kind == "close":
            told = event.payload
            by_action = {
                part: {codes.get(name, name): number for name, number in told[part].items()}
                for part in ("assigned", "observed", "absent", "expected")
            }
            found.append(
                WaveQuality(
                    wave=told["wave"],
                    **by_action,
                    allocation_p=told["allocation"]["p"],
                    missing_p=told["missingness"]["p"],
                    waiting=any(wave == told["wave"] for wave, _ in told["waiting"]),
                )
            )
    return Quality(
        waves=tuple(found),
        clipped=now.clipped,
        conflicts=now.conflicts,
        quarantined=now.quarantined,
        doubts=doubts,
    )


# ----------------------------------------------------------------------
# Answers: estimates with intervals that are valid after adaptive waves.
#
# Numbers have the objective's own sign and unit: if the direction is "min", a negative lift is an
# improvement. Shares are kept as shares here; yes/no metrics are displayed per 100 units (see
# :class:`~seqbatch.campaign.spec.measure.Measure`).


@dataclass(frozen=True, kw_only=True)
class WaveAnswer:
    """The estimate from one wave alone, with its moderated interval.

    Parameters
    ----------
    wave, units, interval
        The wave's number, its size, and its estimate.
    effective
        The number of outcomes per action of an evenly randomised trial with the same precision; the
        interval's coverage has not been shown below 30.
    weight
        The wave's weight in the pooled estimate.
    """

    wave: int
    units: int
    interval: Interval
    effective: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An action's mean, or its lift over the control, over all waves in which it was given.

    Parameters
    ----------
    action
        The action's name.
    interval
        The average over the campaign's units: waves are weighted by their size.
    together
        For a lift: the simultaneous interval, which covers jointly with those of all other actions
        and at all looks of the declared stopping rule.
    naive
        For a lift: the raw difference in means that most tools print, which is not valid here.
    same
        For a lift: the estimate if it was the same in every wave, which looks use.
    adjusted
        For a lift: the same estimate adjusted for the look that ended the campaign, with an
        interval that covers jointly with those of all other actions, and its own p-value.
    earlier_looks
        The number of looks before the last one that could have ended the campaign.
    waves
        The estimate of each wave that could be used.
    among
        The share of units that could get the action (for a lift, also the control). The answer
        holds for these units only.
    same_p
        The p-value of the hypothesis that all waves have the same value.
    """

    action: str
    interval: Interval
    waves: tuple[WaveAnswer, ...]
    together: Interval | None = None
    naive: Interval | None = None
    same: Interval | None = None
    adjusted: Interval | None = None
    earlier_looks: int = 0
    among: float = 1.0
    same_p: float = 1.0

    @property
    def around(self) -> Interval:
        """The interval shown first: the adjusted one, else the simultaneous one if there is one."""
        if self.adjusted is not None and self.adjusted.known:
            return self.adjusted
        together = self.together
        return together if together is not None and together.known else self.interval


@dataclass(frozen=True, kw_only=True)
class RunAnswer:
    """The mean outcome of the campaign as it was run, and its gains over simpler policies.

    Parameters
    ----------
    value
        The mean outcome.
    over_random
        The gain over assigning every unit at random among the actions given; a negative gain is
        better if the direction is "min".
    over_actions
        The gain over giving all units one action, by the action's name.
    over_best
        The gain over the best single action.
    adaptive, earned
        The waves, with the actions of the last one, whose probabilities were not all equal; and the
        gain over random assignment in these alone, unknown if there are none.
    """

    value: Interval
    over_random: Interval
    over_actions: dict[str, Interval]
    over_best: Interval
    adaptive: tuple[int, ...]
    earned: Interval


@dataclass(frozen=True, kw_only=True)
class RuleAnswer:
    """The rule to run next: each unit gets the action with the best prediction from all data.

    Parameters
    ----------
    gain
        The gain over giving all units the control, or why it is not known.
    supported
        The share of the last wave's units that could have got the rule's action and the control.
    best, over_best
        The best single action that may be given, and the rule's gain over it; None if no estimate
        is better than the control's.
    shares
        The share of units to which the rule gives each action.
    columns, coefficients
        The model's columns, the constant first and the others standardised by the first wave; and
        each action's coefficients in the same order, in the reward's own sign.
    """

    gain: Interval
    supported: float
    shares: dict[str, float]
    columns: tuple[str, ...]
    coefficients: dict[str, tuple[float, ...]]
    best: str | None = None
    over_best: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class SegmentAnswer:
    """A lift within a segment declared in advance.

    Parameters
    ----------
    action, by, segment
        The action, the column of segments, and the segment.
    interval
        The lift among the segment's units that may get the action and the control.
    adjusted_p
        Its p-value, adjusted by Holm over all segments; NaN if the lift is unknown.
    among
        The share of the segment's units that may get both.
    unknown
        Why the lift is unknown, as a code ("not-eligible", "no-outcomes", "too-few-events"); the
        interval's note says it in words. "" if it is known.
    """

    action: str
    by: str
    segment: str
    interval: Interval
    adjusted_p: float
    among: float = 1.0
    unknown: str = ""


@dataclass(frozen=True, kw_only=True)
class SplitAnswer:
    """A split of the units that the first wave suggested and later waves tested.

    Parameters
    ----------
    action
        The action whose lift differs between the two sides.
    column, threshold
        The column that divides the units, and the value at or below which a unit counts as below.
    above, below, difference
        The lift on each side, and the difference (above minus below).
    adjusted_p
        The p-value of the difference, adjusted by Holm over all tested splits.
    """

    action: str
    column: str
    threshold: float
    above: Interval
    below: Interval
    difference: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class DriftAnswer:
    """A test that a value is the same in all waves; `kind` is "lift", "level" or "feature"."""

    kind: str
    about: str
    statistic: float
    p: float


@dataclass(frozen=True, kw_only=True)
class StoppingAnswer:
    """The result of the declared stopping rule, and the cost of looking without one.

    Parameters
    ----------
    rule, alpha
        The declared rule and its error rate; "none" if no rule was declared.
    looks
        The results at each closing of a wave.
    gone_on
        The reasons given for continuing despite the rule, by wave.
    inflated
        Without a rule: the error rate of testing after each closed wave at the usual boundary when
        no action differs; it exceeds alpha. None if a rule was declared, or after a single wave.
    """

    rule: str
    alpha: float
    looks: tuple[LookTaken, ...]
    gone_on: dict[int, str]
    inflated: float | None

    @property
    def end(self) -> LookTaken | None:
        """The look that ended the campaign; None if none did.

        None also if the campaign continued although a lift had been shown or all actions were
        worse: what followed has no place in an ordering by stages. Continuing despite futility is
        allowed, because boundaries for success do not rely on it.
        """
        last = self.looks[-1] if self.looks else None
        if last is None or not (last.stops or last.verdict == END) or last.wave in self.gone_on:
            return None
        against = [look for look in self.looks if look.wave in self.gone_on]
        return None if any(look.verdict in (SUCCESS, HARM) for look in against) else last


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a campaign was to answer, who answers for it, and how far it has come.

    Parameters
    ----------
    question, owner
        As declared; None if they were not.
    began, ended
        The days of its first event, and of the one that ended it (None while it is open), in UTC.
    masked
        Whether codes replace the names of its actions.
    wave, sizes, units
        The open or last wave; every wave's planned size; and the units assigned in each wave.
    """

    question: str | None
    owner: str | None
    began: str
    ended: str | None
    masked: bool
    wave: int
    sizes: tuple[int, ...]
    units: tuple[int, ...]

    @property
    def assigned(self) -> int:
        """The number of units assigned so far."""
        return sum(self.units)

    @property
    def left(self) -> tuple[int, ...]:
        """How many units can still be assigned in the open wave and in each later one."""
        if self.ended is not None:
            return ()
        given = (*self.units, *[0] * len(self.sizes))
        return tuple(
            max(size - done, 0)
            for size, done in list(zip(self.sizes, given, strict=False))[self.wave - 1 :]
        )


@dataclass(frozen=True, kw_only=True)
class Findings:
    """A campaign's results, their uncertainty, and the data and assumptions behind them.

    Parameters
    ----------
    name, condition, level
        The campaign's name, its condition, and the coverage of the intervals.
    course
        The campaign's question, owner, dates and waves.
    measure
        The objective: what the numbers are.
    control, control_declared
        The action that others are compared with (by default the first), and whether it was
        declared.
    actions, retired
        All actions the campaign ever had, the control first; and those no longer given.
    waves, skipped, open_wave
        The waves that count; the skipped waves; and the number of the open wave, whose units are
        left out (None if no wave is open).
    waiting
        Waves that are left out because units of them have no outcome and do not count as absent
        yet: the others are buyers alone.
    units, outcomes, absent
        Counts over the waves that count; outcomes include absent units, which count as declared.
    means, lifts
        Answers by action: means with the control first, lifts for all other actions.
    run, rule
        The value of the run, and the rule to run next; None if unknown.
    segments, splits, drift
        Lifts by segment, tested splits, and tests of change between waves.
    quality
        Data quality of the waves.
    late
        How many outcomes of closed waves arrived or were corrected after the last closing.
    stopping
        The result of the declared stopping rule.
    tree
        A short form of the rule, if it was asked for.
    recommendation
        What the evidence allows to recommend; None if nothing can be compared.
    selected
        What to expect of the best action in a roll-out; None if it had no competitor.
    differences
        How different the actions are, for the average unit and by feature.
    conditional
        The conditional power of each action, if it was asked for.
    trees
        What a rule by boosted trees would have brought, if it was asked for.
    scarce
        The actions of which hardly any outcome came back for some kinds of units.
    spread
        The standard deviation of the logarithms of amounts; None if outcomes are not amounts.
    metrics
        All metrics, each with its means, lifts and guardrail.
    lacking
        What is left out because it takes the rows, which are elsewhere: "splits", "tree" and
        "clipped" (counts of values outside their range).
    assumptions
        The assumptions, each with what would break it.
    notes
        Remarks that the reader needs to know.
    """

    name: str
    condition: str
    level: float
    course: Course
    measure: Measure
    control: str
    control_declared: bool
    actions: tuple[str, ...]
    retired: tuple[str, ...]
    waves: tuple[int, ...]
    skipped: tuple[int, ...]
    open_wave: int | None
    waiting: tuple[int, ...]
    units: int
    outcomes: int
    absent: int
    quality: Quality
    late: int
    stopping: StoppingAnswer
    means: tuple[Answer, ...] = ()
    lifts: tuple[Answer, ...] = ()
    run: RunAnswer | None = None
    rule: RuleAnswer | None = None
    segments: tuple[SegmentAnswer, ...] = ()
    splits: tuple[SplitAnswer, ...] = ()
    drift: tuple[DriftAnswer, ...] = ()
    tree: TreeAnswer | None = None
    recommendation: Recommendation | None = None
    selected: SelectedAnswer | None = None
    differences: tuple[FeatureDifference, ...] = ()
    conditional: tuple[ConditionalPower, ...] = ()
    trees: TreesAnswer | None = None
    scarce: tuple[str, ...] = ()
    spread: float | None = None
    metrics: tuple[MetricAnswer, ...] = ()
    all_equal: bool = False
    lacking: tuple[str, ...] = ()
    assumptions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there are any outcomes to report."""
        return self.outcomes > 0

    @property
    def ended(self) -> bool:
        """Whether no wave is open, or the declared rule says to stop."""
        looks = self.stopping.looks
        return self.condition != "open" or bool(looks and looks[-1].stops)

    @property
    def best(self) -> Answer | None:
        """The best lift among the actions still given, or else of all; None if none is known."""
        return best_given(self) or best_given(replace(self, retired=()))

    @property
    def barred(self) -> frozenset[str]:
        """The actions that break a guardrail."""
        return frozenset(
            action
            for action in self.actions
            if Guarded.BROKEN in guardrail_codes(self.metrics, action).values()
        )

    @property
    def decision(self) -> CampaignDecision:
        """The decision that the findings allow: one recommendation, and what it rests on."""
        return decided(self)

    @property
    def tree_sentences(self) -> tuple[str, ...]:
        """The tree in a few sentences, and whether it is worth it; none if it was not asked for."""
        return tuple(tree_sentences(self))

    def document(self, *, appendix: bool = False) -> Document:
        """Return the findings as a document: the decision, and all that was asked for besides.

        The appendix has all tables, notes and assumptions.
        """
        decision = self.decision
        parts: list[Part] = [decision.title, *decision.parts(), *lift_pictures(self)]
        if appendix:
            parts += [Heading("Appendix"), basis(self), *details(self), *self.tables()]
        elif self.conditional:
            parts.append(conditional_table(self))
        parts += [*trees_sentences(self), *self.tree_sentences, *tree_tables(self)]
        parts += remarks(self) if appendix else []
        first = Section("findings", "Findings", parts)
        return Document(f"Findings of campaign {self.name}", first, data=self.plain())

    def tables(self) -> list[Table]:
        """Return all answers as tables."""
        return tables(self)

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; unknown values are None."""
        made: dict[str, Any] = _plain({"decision": self.decision.plain(), **asdict(self)})
        if self.tree is not None:
            made["tree"]["sentences"] = list(self.tree_sentences)
        made["metrics"] = [
            _metric(one, told) for one, told in zip(self.metrics, made["metrics"], strict=True)
        ]
        return made

    def __str__(self) -> str:
        return str(self.decision)

    def _repr_html_(self) -> str:
        return as_notebook(self.document())


def _metric(metric: MetricAnswer, told: dict[str, Any]) -> dict[str, Any]:
    """Return a metric's plain values, with its name first and its guardrail in one place."""
    measure, rail = metric.measure, metric.rail
    judged = told.pop("guardrail")
    del told["rail"], told["shown"]
    return {
        "name": metric.name,
        "kind": measure.kind,
        "unit": measure.unit,
        **told,
        "guardrail": None if rail is None else {
            "bound": rail.bound,
            "side": "at most" if rail.upper else "at least",
            "relative": rail.relative,
            "actions": judged,
        },
    }  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value

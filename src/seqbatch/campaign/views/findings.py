"""Findings: a campaign's estimates with intervals, data quality and units of measure."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import floor, isfinite, log10
from typing import Any

from seqbatch.campaign.decide.action_counts import SMALL, Counts, MetricRow
from seqbatch.campaign.decide.stopping import LookTaken
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event, Reader
from seqbatch.campaign.record.stored_units import known_outcomes, walk
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.views.findings_text import basis, remarks, sentences, tables
from seqbatch.campaign.views.recommendation import Recommendation, best_given
from seqbatch.display import number as short
from seqbatch.display import percent
from seqbatch.document import Document, Part, Section, Table, as_notebook
from seqbatch.inference import Interval

# ----------------------------------------------------------------------
# Units of measure and rounding.


#: Plurals of words for units. For any other word, such as "Kunden-Nr" or "company", the plural is
#: unknown, and the word may not be English.
NOUNS = (
    "account", "client", "customer", "device", "donor", "employee", "guest", "hospital",
    "household", "lead", "member", "merchant", "order", "participant", "patient", "person",
    "player", "pupil", "reader", "respondent", "school", "shop", "store", "student", "subject",
    "subscriber", "teacher", "user", "viewer", "village", "visitor", "voter", "worker",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The outcome's name, unit and direction, and the word for one unit.

    Parameters
    ----------
    reward, unit
        The reward's name, and its unit of measure (None if not declared).
    direction
        "max" if more is better, "min" if less is better.
    binary
        Whether every outcome is 0 or 1; numbers are then shown per 100 units.
    of
        The word for one unit, such as "customer".
    costs
        Whether the numbers include the costs of actions.
    cap
        The largest amount that counts; None if all count in full.
    """

    reward: str
    unit: str | None
    direction: str
    binary: bool
    of: str
    costs: bool
    cap: float | None = None

    @classmethod
    def of_spec(cls, spec: Spec, *, binary: bool, costs: bool) -> "Measure":
        """Return the measure of a campaign's reward."""
        return cls(
            reward=spec.reward.label,
            unit=spec.reward.unit,
            direction=spec.reward.direction,
            binary=binary,
            of=unit_word(spec.unit),
            costs=costs,
            cap=spec.reward.cap,
        )

    @property
    def scale(self) -> float:
        """The factor by which numbers are multiplied for display."""
        return 100.0 if self.binary else 1.0

    @property
    def per(self) -> str:
        """The denominator of displayed numbers: "100 customers", or "customer"."""
        return f"100 {self.of}s" if self.binary else self.of

    @property
    def head(self) -> str:
        """The heading of a column of numbers."""
        capped = "" if self.cap is None else f" (capped at {short(self.cap, 6)})"
        return f"{self.unit or self.reward} per {self.per}{capped}"

    def number(self, value: float, error: float, *, digits: int | None = None) -> str:
        """Return a number as text; see :func:`rounded`."""
        return rounded(value * self.scale, error * self.scale, digits=digits)

    def amount(self, value: float, error: float) -> str:
        """Return a difference in words: "6.8 more visits per 100 customers"."""
        size = self.number(abs(value), error)
        more = self.way(value)
        if self.unit is None:
            return f"{size} {more} per {self.per} ({self.reward})"
        said = f"{more} {self.unit}" if self.binary else f"{self.unit} {more}"
        return f"{size} {said} per {self.per}"

    def between(self, interval: Interval) -> str:
        """Return an interval in words, to follow an amount: "95% interval 5.1 to 8.5".

        The ends have no sign, like the amount before them. If 0 lies between them, words give the
        direction: "95% interval 1.2 fewer to 8.1 more".
        """
        side = -1 if interval.estimate < 0 else 1
        ends = sorted((side * interval.low, side * interval.high))
        if ends[0] >= 0:
            low, high = (self._size(end, interval.error) for end in ends)
            return f"{percent(interval.level)} interval {low} to {high}"
        low, high = (f"{self._size(end, interval.error)} {self.way(side * end)}" for end in ends)
        return f"{percent(interval.level)} interval {low} to {high}"

    def _size(self, end: float, error: float) -> str:
        """Return one end of an interval without its sign; it is never rounded to 0."""
        sizes = [self.number(abs(end), error, digits=digits) for digits in (None, 2, 3, 4)]
        return next((size for size in sizes if float(size.replace(",", ""))), sizes[0])

    def signed(self, interval: Interval) -> str:
        """Return a number and its interval with signs: "-1.6 (95% interval -3.0 to -0.1)"."""
        values = (interval.estimate, interval.low, interval.high)
        one, low, high = (self.number(value, interval.error) for value in values)
        return f"{one} ({percent(interval.level)} interval {low} to {high})"

    def way(self, value: float) -> str:
        """Return the word for a difference of this sign: more, fewer or less."""
        return "more" if value >= 0 else "fewer" if self.binary else "less"

    def cells(self, interval: Interval) -> tuple[str, str, str]:
        """Return estimate, low and high for a table, with two digits of the error."""
        if not interval.known:
            return "", "", ""
        return tuple(  # type: ignore[return-value]
            self.number(value, interval.error, digits=2)
            for value in (interval.estimate, interval.low, interval.high)
        )

    def better(self, value: float) -> bool:
        """Whether a difference of this sign is an improvement."""
        return value > 0 if self.direction == "max" else value < 0


def rounded(value: float, error: float, *, digits: int | None = None) -> str:
    """Return a number, rounded to the precision that its standard error supports.

    It keeps two significant digits of the error. With `digits=None` it keeps two if the error
    begins with 1, 2 or 3, and one otherwise.

    >>> rounded(6.8347, 0.87), rounded(6.8347, 0.87, digits=2), rounded(1234.5, 210)
    ('6.8', '6.83', '1,230')
    >>> rounded(-0.0001, 0.5), rounded(3.0, 0.0)
    ('0.0', '3')
    """
    if not isfinite(error) or error <= 0:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    power = floor(log10(error))
    if digits is None:
        digits = 2 if error / 10**power < 3.55 else 1
    decimals = digits - 1 - power
    # Adding 0 turns -0.0 into 0.0.
    near = round(value, decimals) + 0.0
    return f"{near:,.{max(decimals, 0)}f}"


def unit_word(columns: tuple[str, ...]) -> str:
    """Return the word for one unit, derived from the name of its id column.

    >>> [unit_word((column,)) for column in ("customer", "Customer_ID", "id", "Kunden-Nr")]
    ['customer', 'customer', 'unit', 'unit']
    """
    word = re.sub(r"[\s_-]*(id|nr|no|number|key)$", "", columns[0].strip().lower())
    return word if len(columns) == 1 and word in NOUNS else "unit"


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
    """

    wave: int
    assigned: dict[str, int]
    observed: dict[str, int]
    absent: dict[str, int]
    expected: dict[str, float]
    allocation_p: float | None
    missing_p: float | None

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
    """

    waves: tuple[WaveQuality, ...]
    clipped: dict[str, int]
    conflicts: int
    quarantined: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the problems to look into before you trust any result."""
        said = []
        for one in self.waves:
            if one.allocation_p is not None and one.allocation_p < SMALL:
                said.append(
                    f"Wave {one.wave}: the actions' shares do not match the logged probabilities "
                    f"(p = {one.allocation_p:.1g}). Do not trust any result until you know why."
                )
            if one.missing_p is not None and one.missing_p < SMALL:
                said.append(
                    f"Wave {one.wave}: when it was closed, outcomes were missing more often under "
                    f"some actions than under others (p = {one.missing_p:.1g}). If missingness "
                    "depends on the outcome, the lifts are biased."
                )
        return tuple(said)


def quality(now: Situation, events: Sequence[Event]) -> Quality:
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
                )
            )
    return Quality(
        waves=tuple(found),
        clipped=now.clipped,
        conflicts=now.conflicts,
        quarantined=now.quarantined,
    )


# ----------------------------------------------------------------------
# Answers: estimates with intervals that are valid after adaptive waves.
#
# Numbers have the reward's own sign and unit: if the direction is "min", a negative lift is an
# improvement. Shares are kept as shares here; 0/1 outcomes are displayed per 100 units (see
# :class:`~seqbatch.campaign.views.findings.Measure`).


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
    among: float = 1.0
    same_p: float = 1.0

    @property
    def around(self) -> Interval:
        """The interval shown first: the simultaneous one if there is one."""
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
    """

    value: Interval
    over_random: Interval
    over_actions: dict[str, Interval]
    over_best: Interval


@dataclass(frozen=True, kw_only=True)
class RuleAnswer:
    """The rule to run next: each unit gets the action with the best prediction from all data.

    Parameters
    ----------
    gain
        The gain over giving all units the control, or why it is not known.
    supported
        The share of the last wave's units that could have got the rule's action and the control.
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


@dataclass(frozen=True, kw_only=True)
class Findings:
    """A campaign's results, their uncertainty, and the data and assumptions behind them.

    Parameters
    ----------
    name, condition, level
        The campaign's name, its condition, and the coverage of the intervals.
    measure
        The unit of measure of the numbers.
    control, control_declared
        The action that others are compared with (by default the first), and whether it was
        declared.
    actions, retired
        All actions the campaign ever had, the control first; and those no longer given.
    waves, skipped, open_wave
        The waves that count; the skipped waves; and the number of the open wave, whose units are
        left out (None if no wave is open).
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
    recommendation
        What the evidence allows to recommend; None if nothing can be compared.
    scarce
        The actions of which hardly any outcome came back for some kinds of units.
    spread
        The standard deviation of the logarithms of amounts; None if outcomes are not amounts.
    metrics
        Metrics besides the outcome, by action, and whether their guardrails hold.
    assumptions
        The assumptions, each with what would break it.
    notes
        Remarks that the reader needs to know.
    """

    name: str
    condition: str
    level: float
    measure: Measure
    control: str
    control_declared: bool
    actions: tuple[str, ...]
    retired: tuple[str, ...]
    waves: tuple[int, ...]
    skipped: tuple[int, ...]
    open_wave: int | None
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
    recommendation: Recommendation | None = None
    scarce: tuple[str, ...] = ()
    spread: float | None = None
    metrics: tuple[MetricRow, ...] = ()
    all_equal: bool = False
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
        """The actions that violate a guardrail."""
        return frozenset(row.action for row in self.metrics if row.passed is False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The results in a few sentences, the most important first."""
        return sentences(self)

    def document(self) -> Document:
        """Return the findings as a document: sentences, tables, notes and assumptions."""
        parts: list[Part] = [*self.sentences, basis(self), *self.tables(), *remarks(self)]
        title = f"Findings of campaign {self.name}"
        return Document(title, Section("findings", "Findings", parts), data=self.plain())

    def tables(self) -> list[Table]:
        """Return all answers as tables."""
        return tables(self)

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; unknown values are None."""
        return {"sentences": list(self.sentences), **_plain(asdict(self))}

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return as_notebook(self.document())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value


# ----------------------------------------------------------------------
# Metrics besides the outcome, by action; computed in one pass, and only if declared.


def metric_rows(reader: Reader, now: Situation) -> tuple[MetricRow, ...]:
    """Return every metric's mean by action, and whether it stays within its guardrail."""
    if not now.spec.metrics:
        return ()
    counts = Counts.zero(now)
    for piece in walk(reader, known_outcomes(reader, now), until=now.sequence):
        counts += Counts.of(now, piece, tested=False)
    return counts.metrics.rows([action.name for action in now.actions])

"""Findings: what a campaign has shown, with intervals, data quality and units of measure."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import floor, isfinite, log10
from typing import Any

from seqbatch.campaign.decide.counts import SMALL, Counts, MetricRow
from seqbatch.campaign.decide.stopping import LookTaken
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event, Reader
from seqbatch.campaign.record.unit_pieces import known_outcomes, walk
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.views.findings_text import basis, remarks, sentences, tables
from seqbatch.display import percent
from seqbatch.document import Document, Part, Section, Table, as_notebook
from seqbatch.inference import Interval

# ----------------------------------------------------------------------
# What a campaign's numbers are measured in, and how many digits of them are shown.


#: What units are called in a sentence. Of any other word, such as "Kunden-Nr" or "company", nobody
#: here knows the plural, or whether it is English at all.
NOUNS = (
    "account", "client", "customer", "device", "donor", "employee", "guest", "hospital",
    "household", "lead", "member", "merchant", "order", "participant", "patient", "person",
    "player", "pupil", "reader", "respondent", "school", "shop", "store", "student", "subject",
    "subscriber", "teacher", "user", "viewer", "village", "visitor", "voter", "worker",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What an outcome is, and of whom.

    Parameters
    ----------
    reward, unit
        What the reward is called, and its unit of measure, None where none was declared.
    direction
        "max" where more is better, "min" where less is.
    binary
        Whether every outcome is 0 or 1: then numbers are shown per 100 units.
    of
        What a unit is called: "customer".
    costs
        Whether what actions cost is part of the numbers.
    """

    reward: str
    unit: str | None
    direction: str
    binary: bool
    of: str
    costs: bool

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
        )

    @property
    def scale(self) -> float:
        """What numbers are multiplied by when they are shown."""
        return 100.0 if self.binary else 1.0

    @property
    def per(self) -> str:
        """What numbers are counted by: "100 customers", or "customer"."""
        return f"100 {self.of}s" if self.binary else self.of

    @property
    def head(self) -> str:
        """What stands above a column of numbers."""
        return f"{self.unit or self.reward} per {self.per}"

    def number(self, value: float, error: float, *, digits: int | None = None) -> str:
        """Return a number as it is shown; see :func:`rounded`."""
        return rounded(value * self.scale, error * self.scale, digits=digits)

    def amount(self, value: float, error: float) -> str:
        """Return how much more or less: "6.8 more visits per 100 customers"."""
        size = self.number(abs(value), error)
        more = self.way(value)
        if self.unit is None:
            return f"{size} {more} per {self.per} ({self.reward})"
        said = f"{more} {self.unit}" if self.binary else f"{self.unit} {more}"
        return f"{size} {said} per {self.per}"

    def between(self, interval: Interval) -> str:
        """Return an interval as it is said after an amount: "95% interval 5.1 to 8.5".

        The amount before is without a sign, and so are the ends; where 0 is between them, they are
        told apart in words: "95% interval 1.2 fewer to 8.1 more".
        """
        side = -1 if interval.estimate < 0 else 1
        ends = sorted((side * interval.low, side * interval.high))
        if ends[0] >= 0:
            low, high = (self._size(end, interval.error) for end in ends)
            return f"{percent(interval.level)} interval {low} to {high}"
        low, high = (f"{self._size(end, interval.error)} {self.way(side * end)}" for end in ends)
        return f"{percent(interval.level)} interval {low} to {high}"

    def _size(self, end: float, error: float) -> str:
        """Return an end on one side of 0 without its sign, and not rounded to 0."""
        sizes = [self.number(abs(end), error, digits=digits) for digits in (None, 2, 3, 4)]
        return next((size for size in sizes if float(size.replace(",", ""))), sizes[0])

    def signed(self, interval: Interval) -> str:
        """Return a number with its interval and their signs: "-1.6 (95% interval -3.0 to -0.1)"."""
        values = (interval.estimate, interval.low, interval.high)
        one, low, high = (self.number(value, interval.error) for value in values)
        return f"{one} ({percent(interval.level)} interval {low} to {high})"

    def way(self, value: float) -> str:
        """Return what a difference of this sign is called: more, fewer or less."""
        return "more" if value >= 0 else "fewer" if self.binary else "less"

    def cells(self, interval: Interval) -> tuple[str, str, str]:
        """Return estimate, low and high as a table shows them, with two digits of the error."""
        if not interval.known:
            return "", "", ""
        return tuple(  # type: ignore[return-value]
            self.number(value, interval.error, digits=2)
            for value in (interval.estimate, interval.low, interval.high)
        )

    def better(self, value: float) -> bool:
        """Whether a difference of this sign is wanted."""
        return value > 0 if self.direction == "max" else value < 0


def rounded(value: float, error: float, *, digits: int | None = None) -> str:
    """Return a number with as many decimals as its standard error gives a meaning.

    Two significant digits of the error, or with `digits=None` as a person would: two where the
    error begins with a 1, 2 or 3, one otherwise.

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
    # Adding 0 turns a minus zero into a zero.
    near = round(value, decimals) + 0.0
    return f"{near:,.{max(decimals, 0)}f}"


def unit_word(columns: tuple[str, ...]) -> str:
    """Return what one unit is called, by the column of its id.

    >>> [unit_word((column,)) for column in ("customer", "Customer_ID", "id", "Kunden-Nr")]
    ['customer', 'customer', 'unit', 'unit']
    """
    word = re.sub(r"[\s_-]*(id|nr|no|number|key)$", "", columns[0].strip().lower())
    return word if len(columns) == 1 and word in NOUNS else "unit"


# ----------------------------------------------------------------------
# What came in, wave by wave, and what is suspicious about it.


@dataclass(frozen=True, kw_only=True)
class WaveQuality:
    """A closed wave, as its closing saw it.

    Parameters
    ----------
    wave
        Its number.
    assigned, observed, absent
        Units, recorded outcomes, and units that count as absent, by action.
    expected
        Units by the logged probabilities, by action.
    allocation_p, missing_p
        The tests of the sample ratio, and of outcomes missing alike under every action; None where
        there was nothing to test.
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
        """How many units."""
        return sum(self.assigned.values())

    @property
    def outcomes(self) -> int:
        """How many recorded outcomes."""
        return sum(self.observed.values())

    def missing_share(self, action: str) -> float | None:
        """The share of an action's units without an outcome, absent ones not counted."""
        units = self.assigned.get(action, 0)
        gone = units - self.observed.get(action, 0) - self.absent.get(action, 0)
        return gone / units if units else None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """All waves, and rows and values that needed attention.

    Parameters
    ----------
    waves
        The closed waves.
    clipped
        Values of each column that were moved to a bound.
    conflicts, quarantined
        Rows of outcome files that are held.
    """

    waves: tuple[WaveQuality, ...]
    clipped: dict[str, int]
    conflicts: int
    quarantined: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what must be looked into before anything is believed."""
        said = []
        for one in self.waves:
            if one.allocation_p is not None and one.allocation_p < SMALL:
                said.append(
                    f"Wave {one.wave}: actions were not given as often as the logged probabilities "
                    f"say (p = {one.allocation_p:.1g}). Nothing here can be trusted before that is "
                    "explained."
                )
            if one.missing_p is not None and one.missing_p < SMALL:
                said.append(
                    f"Wave {one.wave}: when it was closed, outcomes were missing more often under "
                    f"some actions than under others (p = {one.missing_p:.1g}). If who is missing "
                    "has to do with the outcome, lifts are off."
                )
        return tuple(said)


def quality(now: Situation, events: Sequence[Event]) -> Quality:
    """Gather what the closings of waves saw."""
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
# What a campaign has taught: answers with intervals that hold after adaptive waves.
#
# Every number is in the reward's own sign and unit: of a campaign whose direction is "min" a lift
# below 0 is an improvement. Shares stay shares here; where outcomes are 0 or 1, people are shown
# numbers per 100 units (see :class:`~seqbatch.campaign.views.findings.Measure`).


@dataclass(frozen=True, kw_only=True)
class WaveAnswer:
    """What one wave alone says, with its own moderated interval.

    Parameters
    ----------
    wave, units, interval
        Its number, its size, and what it says alone.
    effective
        How many outcomes of an action in an evenly randomised trial the wave is worth; below 30
        coverage has not been shown.
    weight
        Its part in the pooled estimate.
    """

    wave: int
    units: int
    interval: Interval
    effective: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A mean, or a lift over the control, of one action over all waves in which it was given.

    Parameters
    ----------
    action
        Its name.
    interval
        Over all waves.
    together
        Of a lift: the interval that covers together with those of all other actions, and at all
        looks of the declared stopping rule.
    naive
        Of a lift: the difference in means that most tools print, which is not valid.
    waves
        The waves that could be used, each for itself.
    among
        The share of units that could get the action, and of a lift the control too: the answer is
        about these alone.
    same_p, by_size
        The p-value of "the same in all waves", and the average by the waves' sizes, to be shown
        where that is small.
    few
        What there are too few events of to trust the interval: of a mean events that came, of a
        lift those there would be at break-even.
    """

    action: str
    interval: Interval
    waves: tuple[WaveAnswer, ...]
    together: Interval | None = None
    naive: Interval | None = None
    among: float = 1.0
    same_p: float = 1.0
    by_size: float = float("nan")
    few: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunAnswer:
    """What the campaign brought as it was run.

    Parameters
    ----------
    value
        The mean outcome.
    over_random
        The gain over assigning every unit at random among the actions given; negative is better
        where the direction is "min".
    over_actions
        The gain over giving one action to everybody, by its name.
    over_best
        The gain over the best single action, whichever that is.
    """

    value: Interval
    over_random: Interval
    over_actions: dict[str, Interval]
    over_best: Interval


@dataclass(frozen=True, kw_only=True)
class RuleAnswer:
    """The rule to run next: to each unit the action that all data say is best for it.

    Parameters
    ----------
    gain
        Over giving the control to everybody; or why that is not known.
    supported
        The share of the last wave's units that could have got what the rule wants, and control.
    shares
        The share of units that the rule gives each action.
    columns, coefficients
        The model's columns, the constant first and the others standardised by the first wave; and
        each action's coefficients in this order, in the reward's own sign.
    """

    gain: Interval
    supported: float
    shares: dict[str, float]
    columns: tuple[str, ...]
    coefficients: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class SegmentAnswer:
    """A lift within a segment: declared before the campaign, with Holm's p-value over all."""

    action: str
    by: str
    segment: str
    interval: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class SplitAnswer:
    """A split of the units that the first wave suggested, judged by later waves.

    Parameters
    ----------
    action
        Whose lift differs.
    column, threshold
        What divides the units: above, or at or below. In the column's own numbers.
    above, below, difference
        The lift on either side, and above less below.
    adjusted_p
        Of the difference, by Holm over the splits that were judged.
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
    """A test that something is the same in all waves; `kind` is "outcome" or "feature"."""

    kind: str
    about: str
    statistic: float
    p: float


@dataclass(frozen=True, kw_only=True)
class StoppingAnswer:
    """What the declared rule says, and what looking without one costs.

    Parameters
    ----------
    rule, alpha
        As declared; "none" where no rule was.
    looks
        What was seen whenever a wave was closed.
    gone_on
        Reasons given for going on against the rule, by wave.
    inflated
        Without a rule: the error of testing after each closed wave at the usual boundary where
        nothing differs, instead of alpha. None where a rule was declared, or after one wave.
    """

    rule: str
    alpha: float
    looks: tuple[LookTaken, ...]
    gone_on: dict[int, str]
    inflated: float | None


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was learned, how sure that is, and what it rests on.

    Parameters
    ----------
    name, condition, level
        The campaign, where it stands, and the coverage of the intervals.
    measure
        What numbers are measured in.
    control, control_declared
        What others are compared with; the first action where none was declared.
    actions, retired
        All actions there ever were, the control first; and those no longer given.
    waves, skipped, open_wave
        The waves that count; those that nothing is learned from; and the number of a wave whose
        units have no part here because it is open, None for none.
    units, outcomes, absent
        Of the waves that count; outcomes include absent units, which count as declared.
    means, lifts
        By action, the control first; lifts are those of all others.
    run, rule
        What the run brought, and what to run next; None where nothing is known.
    segments, splits, drift
        For whom, and whether that changed.
    quality
        What came in, and what is suspicious about it.
    late
        Outcomes of closed waves that came, or were corrected, after the last closing.
    stopping
        What the declared rule says.
    missing
        What missing outcomes were taken to depend on: "by action", or "by features" too.
    metrics
        What was measured besides the outcome, by action, and whether guardrails were kept.
    assumptions
        What was assumed, each with what would break it.
    notes
        What a reader must know.
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
    missing: str = "by action"
    metrics: tuple[MetricRow, ...] = ()
    all_equal: bool = False
    assumptions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there are outcomes to speak of."""
        return self.outcomes > 0

    @property
    def best(self) -> Answer | None:
        """The lift with the best estimate, None where no lift is known."""
        sign = 1 if self.measure.direction == "max" else -1
        lifts = [lift for lift in self.lifts if lift.interval.known]
        return max(lifts, key=lambda lift: sign * lift.interval.estimate, default=None)

    @property
    def barred(self) -> frozenset[str]:
        """The actions that violate a guardrail."""
        return frozenset(row.action for row in self.metrics if row.passed is False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in a few sentences, the most important first."""
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
        """Return everything as plain values for JSON; what is not known is None."""
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
# What was measured besides the outcome, by action: in one pass, and only where declared.


def metric_rows(reader: Reader, now: Situation) -> tuple[MetricRow, ...]:
    """Return every metric's mean by action, and whether it keeps within its guardrail."""
    if not now.spec.metrics:
        return ()
    counts = Counts.zero(now)
    for piece in walk(reader, known_outcomes(reader, now), until=now.sequence):
        counts += Counts.of(now, piece, tested=False)
    return counts.metrics.rows([action.name for action in now.actions])

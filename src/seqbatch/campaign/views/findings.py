"""What a campaign has taught: answers with intervals that hold after adaptive waves.

Every number is in the reward's own sign and unit: of a campaign whose direction is "min" a lift
below 0 is an improvement. Shares stay shares here; where outcomes are 0 or 1, people are shown
numbers per 100 units (see :class:`~seqbatch.campaign.views.measure.Measure`).
"""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from seqbatch.campaign.deciding.metrics import MetricRow
from seqbatch.campaign.deciding.stopping import LookTaken
from seqbatch.campaign.views.measure import Measure
from seqbatch.campaign.views.quality import Quality
from seqbatch.display import Table, shown
from seqbatch.inference import Interval


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
        from seqbatch.campaign.views.findings_words import sentences

        return sentences(self)

    def tables(self) -> list[Table]:
        """Return all answers as tables."""
        from seqbatch.campaign.views.findings_tables import tables

        return tables(self)

    def plain(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; what is not known is None."""
        return {"sentences": list(self.sentences), **_plain(asdict(self))}

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        from seqbatch.campaign.views.findings_words import remarks

        return shown(str(self), self.tables(), remarks=remarks(self))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value

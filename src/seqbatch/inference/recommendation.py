"""The recommendation: whether an action may be given to every unit from now on.

The average over a campaign says nothing about now if the lift changed, and no test of change is
sharp enough to rule that out. So "give" needs the campaign's average, the latest waves alone, and
no detected change, or latest waves that are clear by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from seqbatch.inference.contrasts import Lift, Mean
from seqbatch.inference.estimates import estimate_wave, pool_by_size
from seqbatch.inference.intervals import Interval, normal_tail
from seqbatch.inference.summary import Segment, WaveSummary


class Verdict(StrEnum):
    """What the evidence about the best action allows to recommend."""

    GIVE = "give"
    GIVE_CHANGED = "give-changed"
    CHANGED = "changed"
    UNCONFIRMED = "unconfirmed"
    BETTER_NOW = "better-now"
    WORSE = "worse"
    NOT_CLEAR = "not-clear"
    TOO_FEW = "too-few-events"
    BARRED = "barred"


#: The latest waves must have at least this share of all units, and effective outcomes. More
#: outcomes would give more power, and let a turn in the very last wave through.
LATEST_SHARE, LATEST_OUTCOMES = 0.2, 10
#: A lift changed if the p-value of one lift in all waves is below this.
CHANGE = 0.05
#: The latest waves agree below the first p-value; below the second they are clear by themselves.
#: Both are divided by the number of candidates: the best of several looks good by chance.
AGREES, CLEAR_ALONE = 0.10, 0.025


@dataclass(frozen=True, kw_only=True)
class Latest:
    """A lift in the latest waves alone.

    Parameters
    ----------
    waves
        How many waves these are.
    interval
        The lift over their units.
    p_better
        The one-sided p-value of the hypothesis that the action is not better than control.
    """

    waves: int
    interval: Interval
    p_better: float


def latest_lift(
    summaries: Sequence[WaveSummary],
    lift: Lift,
    *,
    level: float = 0.95,
    segment: Segment | None = None,
    less: bool = False,
) -> Latest:
    """Return a lift over the fewest last waves that hold enough units and outcomes.

    They hold at least 20% of all units, or of the segment's, and 10 effective outcomes of both
    actions.

    Parameters
    ----------
    summaries
        The waves.
    lift
        The lift.
    level, segment
        See :func:`~seqbatch.inference.estimates.pool_by_size`.
    less
        Whether a lower outcome is better.
    """
    count = _latest(summaries, lift, segment)
    interval = pool_by_size(summaries[-count:], lift, level=level, segment=segment)
    better = -interval.statistic if less else interval.statistic
    p = normal_tail(better) if interval.known else 1.0
    return Latest(waves=count, interval=interval, p_better=p)


def _latest(summaries: Sequence[WaveSummary], lift: Lift, segment: Segment | None) -> int:
    tallies = [summary.tally(segment) for summary in summaries]
    sizes = [0 if tally is None else tally.units for tally in tallies]
    units, outcomes = 0, [0.0, 0.0]
    for count, summary in enumerate(reversed(summaries), start=1):
        units += sizes[-count]
        for place, action in enumerate((lift.action, lift.over)):
            wave = estimate_wave(summary, Mean(action), segment)
            outcomes[place] += 0.0 if wave is None else wave.effective
        if units >= LATEST_SHARE * sum(sizes) and min(outcomes) >= LATEST_OUTCOMES:
            return count
    return len(summaries)


def verdict(
    low: float,
    high: float,
    *,
    same_p: float,
    latest_p: float,
    tail: float,
    waves: int,
    candidates: int = 1,
    less: bool = False,
) -> Verdict:
    """Return the verdict about the action with the best lift.

    Parameters
    ----------
    low, high
        The interval of the lift over all units of the campaign, with `tail` on each side.
    same_p
        The p-value of one lift in all waves.
    latest_p
        The one-sided p-value of the latest waves alone.
    tail
        The error on each side, after correction for several actions and looks.
    waves
        The number of waves; with one, only the interval counts.
    candidates
        How many actions have an interval on the better side, this one among them.
    less
        Whether a lower outcome is better.

    Examples
    --------
    >>> verdict(0.14, 0.47, same_p=0.79, latest_p=0.003, tail=0.025, waves=3)
    <Verdict.GIVE: 'give'>
    >>> verdict(0.28, 0.50, same_p=1e-7, latest_p=0.09, tail=0.025, waves=3)
    <Verdict.CHANGED: 'changed'>
    """
    if less:
        low, high = -high, -low
    if waves < 2:
        return Verdict.GIVE if low > 0 else Verdict.WORSE if high < 0 else Verdict.NOT_CLEAR
    several = max(candidates, 1)
    if same_p < CHANGE:
        if low > 0 and latest_p < CLEAR_ALONE / several:
            return Verdict.GIVE_CHANGED
        return Verdict.BETTER_NOW if low <= 0 <= high and latest_p < tail else Verdict.CHANGED
    if low > 0:
        return Verdict.GIVE if latest_p < AGREES / several else Verdict.UNCONFIRMED
    return Verdict.WORSE if high < 0 else Verdict.NOT_CLEAR

"""Guardrails: whether means and lifts stay within bounds, by their intervals and Holm's method.

Each decision is two-sided: an estimate may be shown to keep a bound, to break it, or neither. The
overall error, over all bounds and actions, is that of one interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from seqbatch.core import arguments
from seqbatch.inference.intervals import Estimated, Interval, normal_tail
from seqbatch.inference.multiplicity import holm


class Guarded(StrEnum):
    """What the evidence says about a bound."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_CLEAR = "not-clear"
    TOO_FEW = "too-few-events"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound on an estimate.

    Parameters
    ----------
    estimate
        A mean or a lift; undecided unless it is an :class:`~.intervals.Estimated`.
    value
        The bound.
    upper
        Whether the true value must not be above the bound; otherwise, not below it.
    """

    estimate: Interval
    value: float
    upper: bool

    @property
    def p_value(self) -> float:
        """The two-sided p-value of the hypothesis that the true value is the bound."""
        if not isinstance(self.estimate, Estimated):
            return 1.0
        return 2 * normal_tail(abs(self.estimate.shape.statistic(self.value)))


@dataclass(frozen=True, kw_only=True)
class JudgedBound:
    """The decision about a bound.

    Parameters
    ----------
    verdict
        Whether the bound is kept.
    interval
        The estimate with the level at which Holm's method judged it: it is on one side of the bound
        if and only if the verdict says so.
    adjusted_p
        The p-value of the bound, adjusted over all bounds.
    """

    verdict: Guarded
    interval: Interval
    adjusted_p: float


def judge_bounds(bounds: Sequence[Bound], *, level: float = 0.95) -> tuple[JudgedBound, ...]:
    """Judge all bounds of a campaign together, by Holm's step-down method.

    The probability that any verdict "kept" or "broken" is wrong is at most 1 - level.

    Parameters
    ----------
    bounds
        Every bound and every action that it holds for. One that cannot be estimated counts too:
        which ones can must not decide how many are tested.
    level
        The coverage of all decisions together.
    """
    alpha = 1 - arguments.number("level", level, above=0, at_most=1 - 1e-9)
    p_values = [bound.p_value for bound in bounds]
    adjusted = holm(p_values)
    decided = sum(p < alpha for p in adjusted)
    judged: dict[int, JudgedBound] = {}
    for step, place in enumerate(sorted(range(len(bounds)), key=p_values.__getitem__)):
        # Holm tests the smallest p-value at alpha/m, the next one at alpha/(m - 1), and so on. All
        # that remain undecided are tested at the step at which it ends.
        left = len(bounds) - min(step, decided)
        judged[place] = JudgedBound(
            verdict=_verdict(bounds[place], decided=step < decided),
            interval=_at(bounds[place].estimate, 1 - alpha / left),
            adjusted_p=adjusted[place],
        )
    return tuple(judged[place] for place in range(len(bounds)))


def _verdict(bound: Bound, *, decided: bool) -> Guarded:
    if bound.estimate.few is not None:
        return Guarded.TOO_FEW
    if not decided:
        return Guarded.NOT_CLEAR
    above = bound.estimate.estimate > bound.value
    return Guarded.BROKEN if above == bound.upper else Guarded.KEPT


def _at(estimate: Interval, level: float) -> Interval:
    """Return an estimate's interval at another level."""
    if not isinstance(estimate, Estimated):
        return replace(estimate, level=level)
    low, high = estimate.limits((1 - level) / 2)
    return replace(estimate, level=level, low=low, high=high)

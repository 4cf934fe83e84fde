"""Looks after each wave: statistic, boundary, and the verdict of the stopping rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isfinite, nan

from seqbatch.core import arguments
from seqbatch.display import number
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.estimates import pool
from seqbatch.inference.intervals import Estimated, Interval, normal_tail, quantile
from seqbatch.inference.stopping_boundaries import (
    CLASSICAL,
    RULES,
    boundaries,
    futility_boundaries,
)
from seqbatch.inference.summary import WaveSummary

#: The possible verdicts of a look.
SUCCESS, HARM, FUTILITY, ON = "stop: success", "stop: harm", "stop: futility", "go on"


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look after a wave.

    Parameters
    ----------
    wave
        The wave after which it happened, from 1.
    information
        t_m, the information fraction.
    statistic
        The statistic of the pooled estimate, on the scale of a standard normal.
    boundary, futility
        The boundary of success and harm, and the bound below which continuing is futile.
    repeated
        The repeated confidence interval, which covers at all looks together.
    """

    wave: int
    information: float
    statistic: float
    boundary: float
    futility: float
    repeated: Interval

    @property
    def verdict(self) -> str:
        """The verdict of the stopping rule."""
        if self.statistic >= self.boundary:
            return SUCCESS
        if self.statistic <= -self.boundary:
            return HARM
        return FUTILITY if self.statistic < self.futility else ON


@dataclass(frozen=True, kw_only=True)
class Looks:
    """All looks so far at one contrast.

    Parameters
    ----------
    about
        The name of the contrast.
    rule
        The name of the rule; see :func:`~seqbatch.inference.boundaries`.
    looks
        One per wave at which a look was possible.
    """

    about: str
    rule: str
    looks: tuple[Look, ...]

    @property
    def verdict(self) -> str:
        """The verdict after the last wave."""
        return self.looks[-1].verdict if self.looks else ON

    def tables(self) -> list[Table]:
        """Return the looks as one table."""
        columns = (
            "wave",
            "information",
            "statistic",
            "boundary",
            "futility",
            "low",
            "high",
            "says",
        )
        rows = [
            (
                one.wave,
                one.information,
                one.statistic,
                _finite(one.boundary),
                _finite(one.futility),
                _finite(one.repeated.low),
                _finite(one.repeated.high),
                one.verdict,
            )
            for one in self.looks
        ]
        return [Table(f"Looks at the {self.about} ({self.rule})", columns, rows, words=("says",))]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        if not self.looks:
            return f"{self.about}: no look yet, because all outcomes so far are equal."
        last = self.looks[-1]
        return (
            f"{self.about}, after wave {last.wave}: the statistic is {number(last.statistic, 3)}, "
            f"the boundary ({self.rule}) {number(last.boundary, 3)}: {last.verdict}."
        )


def look(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    *,
    rule: str = "obrien-fleming-spending",
    level: float = 0.95,
    power: float | None = None,
) -> Looks:
    """Look after each wave so far, with boundaries that control the error of all looks together.

    While all outcomes are equal, no look is possible and no error is spent. With ``rule="none"``
    every look uses the boundary of a single one; several looks then err more often than stated.

    Parameters
    ----------
    summaries
        The waves so far.
    contrast
        A mean or a lift.
    shares
        The planned shares, at least of the waves so far; with `power`, of all waves.
    rule
        A spending function or a classical boundary (see :func:`~seqbatch.inference.boundaries`),
        or ``"none"``. Classical boundaries need the shares of all planned waves.
    level
        The joint coverage of all repeated intervals.
    power
        The probability of success at the effect that the campaign is designed for, which adds
        futility bounds; None for no such bounds.
    """
    arguments.choice("rule", rule, (*RULES, "none"))
    alpha = (1 - level) / 2
    # Shares refer to the whole plan: before its end they sum to less than 1.
    times = [1.0 if time > 1 - 1e-9 else time for time in accumulate(shares)]
    seen = [place for place, one in enumerate(summaries) if not one.evidence.all_equal]
    bounds = _bounds(times, seen, rule, alpha)
    lows = _futility(times, rule, alpha, power)
    looks = []
    for place, bound in zip(seen, bounds, strict=True):
        pooled = pool(summaries[: place + 1], contrast, shares, level=level)
        if isinstance(pooled, Estimated):
            looks.append(_look(place + 1, times[place], pooled, bound, lows[place]))
    return Looks(about=contrast.name, rule=rule, looks=tuple(looks))


def repeated(pooled: Estimated, bound: float, *, level: float) -> Interval:
    """Return the limits at the look's boundary: the interval that covers at all looks together."""
    low, high = pooled.limits(normal_tail(bound))
    return Interval(
        about=pooled.about,
        estimate=pooled.estimate,
        error=pooled.error,
        df=pooled.df,
        level=level,
        low=low,
        high=high,
        statistic=pooled.statistic,
        note="Repeated interval: covers at all looks together.",
    )


def _look(wave: int, time: float, pooled: Estimated, bound: float, futility: float) -> Look:
    return Look(
        wave=wave,
        information=time,
        statistic=pooled.statistic,
        boundary=bound,
        futility=futility,
        repeated=repeated(pooled, bound, level=pooled.level),
    )


def _bounds(
    times: Sequence[float], seen: Sequence[int], rule: str, alpha: float
) -> Sequence[float]:
    if rule == "none":
        return [quantile(alpha, inf)] * len(seen)
    looked = [times[place] for place in seen]
    if rule not in CLASSICAL:
        return boundaries(looked, rule=rule, alpha=alpha)
    _require_all(times)
    ahead = [times[place + 1 :] for place in seen]
    return boundaries(looked, rule=rule, alpha=alpha, ahead=ahead)


def _futility(
    times: Sequence[float], rule: str, alpha: float, power: float | None
) -> Sequence[float]:
    if rule == "none" or power is None:
        return [-inf] * len(times)
    _require_all(times)
    return futility_boundaries(times, rule=rule, alpha=alpha, power=power)


def _require_all(times: Sequence[float]) -> None:
    if times[-1] < 1:
        rule = "those of all waves, with sum 1, for futility and for classical boundaries"
        raise InvalidArgumentError("shares", rule, f"{times[-1]:g} in total")


def _finite(value: float) -> float:
    return value if isfinite(value) else nan

"""Lifts within segments: declared segments, and splits found in earlier waves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import hypot, inf, nan, sqrt
from typing import Any, Literal

import numpy as np

from seqbatch.core import arguments
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.estimates import pool_by_size, pooled_df, shape_by_size
from seqbatch.inference.intervals import (
    Estimated,
    Interval,
    Shape,
    StudentShape,
    crossing,
    difference_limits,
    estimated,
    normal_tail,
    unknown,
)
from seqbatch.inference.logged_units import Wave, pieces
from seqbatch.inference.multiplicity import holm
from seqbatch.inference.rare_events import PlannedDesign, planned_units
from seqbatch.inference.summary import (
    AmongEligible,
    Partition,
    Segment,
    Split,
    WaveSummary,
    summarise,
)
from seqbatch.inference.value_counts import ValueCounts

# ----------------------------------------------------------------------
# Declared segments, with p-values adjusted for their number.


#: Why a contrast is unknown within a segment: no unit could get its actions, no outcome came back,
#: events are too few, or all outcomes are equal.
Unknown = Literal["", "not-eligible", "no-outcomes", "too-few-events", "all-equal"]
NOBODY = "No unit of this segment could get both actions."


@dataclass(frozen=True, kw_only=True)
class SegmentFinding:
    """A contrast within one segment.

    Parameters
    ----------
    partition, segment
        How units are divided, and the segment; None for units without a level.
    interval
        The contrast among the segment's units, or among those that could get its actions.
    adjusted_p
        Its p-value, adjusted by Holm's method over all segments; NaN if the contrast is unknown.
    among
        The share of the segment's units that could get the contrast's actions.
    unknown
        Why the contrast is unknown; "" if it is known.
    """

    partition: str
    segment: Any
    interval: Interval
    adjusted_p: float
    among: float = 1.0
    unknown: Unknown = ""

    @property
    def name(self) -> str:
        """The segment as text."""
        return "missing" if self.segment is None else str(self.segment)


@dataclass(frozen=True, kw_only=True)
class Segments:
    """A contrast within each segment.

    Parameters
    ----------
    about
        The contrast.
    findings
        One per segment.
    """

    about: str
    findings: tuple[SegmentFinding, ...]

    def tables(self) -> list[Table]:
        """Return the segments as one table."""
        columns = ("by", "segment", "estimate", "low", "high", "p (Holm)", "note")
        rows = [
            (
                one.partition,
                one.name,
                one.interval.estimate,
                one.interval.low,
                one.interval.high,
                one.adjusted_p,
                one.interval.note,
            )
            for one in self.findings
        ]
        words = ("by", "segment", "note")
        return [Table(f"{self.about}, by segment", columns, rows, words=words, keys=2)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        lines = [
            f"{one.partition} = {one.name}: {one.interval}"
            + ("" if one.unknown else f" (p = {one.adjusted_p:.3f} by Holm)")
            for one in self.findings
        ]
        return "\n".join(lines)


def within_segments(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    partitions: Sequence[Partition],
    *,
    level: float = 0.95,
    planned: Sequence[PlannedDesign] = (),
) -> Segments:
    """Return a contrast within each segment of partitions that were fixed before the campaign.

    Each interval is for one segment alone; the p-values are adjusted for the number of segments.

    Parameters
    ----------
    summaries
        The waves, summarised with these partitions.
    contrast
        A mean or a lift.
    partitions
        How units are divided; in a campaign with eligibility
        :class:`~seqbatch.inference.summary.AmongEligible`, summarised beside its own partition.
    level
        The coverage of each interval.
    planned
        What was planned for each wave, from a plan of shares: if a segment's events are too few,
        it has no interval. Without it this rule is not applied.
    """
    found = []
    for partition in partitions:
        whole = partition.partition if isinstance(partition, AmongEligible) else partition
        for level_name in levels_of(summaries, whole):
            segment = (partition, level_name)
            interval = in_segment(summaries, contrast, segment, level=level, planned=planned)
            made = SegmentFinding(
                partition=partition.name,
                segment=level_name,
                interval=interval,
                adjusted_p=nan,
                among=_units(summaries, segment) / _units(summaries, (whole, level_name)),
                unknown=_unknown(summaries, segment, interval),
            )
            nobody = made.unknown == "not-eligible"
            found.append(replace(made, interval=replace(interval, note=NOBODY)) if nobody else made)
    adjusted = adjusted_p_values([one.interval for one in found])
    return Segments(
        about=contrast.name,
        findings=tuple(replace(one, adjusted_p=p) for one, p in zip(found, adjusted, strict=True)),
    )


def _units(summaries: Sequence[WaveSummary], segment: Segment) -> int:
    tallies = [summary.tally(segment) for summary in summaries]
    return sum(tally.units for tally in tallies if tally is not None)


def _unknown(summaries: Sequence[WaveSummary], segment: Segment, interval: Interval) -> Unknown:
    """Return why an interval is unknown."""
    if interval.known:
        return ""
    if interval.few is not None:
        return "too-few-events"
    if not _units(summaries, segment):
        return "not-eligible"
    return "all-equal" if summaries[-1].evidence.all_equal else "no-outcomes"


def in_segment(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    segment: Segment,
    *,
    level: float,
    planned: Sequence[PlannedDesign],
) -> Interval:
    """Return a contrast within one segment, weighted by the segment's units in each wave."""
    units = None
    if planned:
        tallies = [summary.segments.get(segment) for summary in summaries]
        own = [
            replace(design, units=tally.units)
            for design, tally in zip(planned, tallies, strict=False)
            if tally is not None
        ]
        units = planned_units(own, contrast) if own else 0.0
    return pool_by_size(summaries, contrast, level=level, segment=segment, planned=units)


def levels_of(summaries: Sequence[WaveSummary], partition: Partition) -> list[Any]:
    """Return the segments of a partition that have units in some wave, sorted; None is last."""
    return sorted(
        {segment for one in summaries for owner, segment in one.segments if owner == partition},
        key=lambda segment: (segment is None, segment),
    )


def adjusted_p_values(intervals: Sequence[Interval]) -> tuple[float, ...]:
    """Return Holm-adjusted p-values; an unknown one is NaN, and counts as 1 for the others."""
    adjusted = holm([1.0 if np.isnan(one.p_value) else one.p_value for one in intervals])
    return tuple(p if one.known else nan for p, one in zip(adjusted, intervals, strict=True))


@dataclass(frozen=True)
class DifferenceShape:
    """The difference of two independent estimates, whose distances to their limits are combined."""

    one: Shape
    other: Shape
    df: float = inf

    @property
    def estimate(self) -> float:
        """The difference."""
        return self.one.estimate - self.other.estimate

    @cached_property
    def error(self) -> float:
        """The standard error."""
        return hypot(self.one.error, self.other.error)

    def limits(self, tail: float) -> tuple[float, float]:
        """Return the limits that the true value is beyond with this probability on each side."""
        one, other = self.one, self.other
        return difference_limits(one.estimate, one.limits(tail), other.estimate, other.limits(tail))

    def statistic(self, value: float = 0.0) -> float:
        """Return the smallest z at which the limits hold a value, negative if it is above."""
        return crossing(lambda z: self.limits(normal_tail(z)), self.estimate, value)


def difference(one: Interval, other: Interval, about: str) -> Interval:
    """Return the difference of two estimates from disjoint units."""
    if not (isinstance(one, Estimated) and isinstance(other, Estimated)):
        few = one.few or other.few
        note = " ".join(dict.fromkeys(part for part in (one.note, other.note) if part))
        return unknown(about, level=one.level, note=note, few=few)
    return estimated(about, _difference(one.shape, other.shape), level=one.level)


def _difference(one: Shape, other: Shape) -> Shape:
    """Return the shape of a difference."""
    if not (isinstance(one, StudentShape) and isinstance(other, StudentShape)):
        return DifferenceShape(one, other)
    parts = np.array([one.error**2, other.error**2])
    df = pooled_df(parts, np.array([one.df, other.df]))
    return StudentShape(one.estimate - other.estimate, sqrt(float(parts.sum())), df)


# ----------------------------------------------------------------------
# Segments found in the data: the strongest splits of earlier waves, evaluated on later ones.
#
# The strength of a split is partly luck in the data in which it was found. It is therefore
# evaluated on waves that were not used to find it.


#: The quantiles at which a feature may be split, and the minimum share of units on either side.
QUANTILES, SMALLEST = (0.25, 0.5, 0.75), 0.1


@dataclass(frozen=True, kw_only=True)
class FoundSplit:
    """A split, evaluated on later waves.

    Parameters
    ----------
    split
        The feature and its threshold.
    above, below
        The contrast on either side.
    difference
        Above minus below.
    adjusted_p
        The p-value of the difference, adjusted by Holm's method over the chosen splits.
    """

    split: Split
    above: Interval
    below: Interval
    difference: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class FoundSplits:
    """The strongest splits of earlier waves, evaluated on later ones.

    Parameters
    ----------
    about
        The contrast.
    searched, judged
        The number of waves used to find the splits, and to evaluate them.
    splits
        The splits, the strongest first (in the waves in which they were found).
    """

    about: str
    searched: int
    judged: int
    splits: tuple[FoundSplit, ...]

    def tables(self) -> list[Table]:
        """Return the splits as one table."""
        columns = ("split", "above", "below", "difference", "low", "high", "p (Holm)")
        rows = [
            (
                one.split.name,
                one.above.estimate,
                one.below.estimate,
                one.difference.estimate,
                one.difference.low,
                one.difference.high,
                one.adjusted_p,
            )
            for one in self.splits
        ]
        title = (
            f"{self.about}: splits found in the first {self.searched} waves, "
            f"evaluated on the next {self.judged}"
        )
        return [Table(title, columns, rows, words=("split",))]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        lines = [f"{one.difference} (p = {one.adjusted_p:.3f} by Holm)" for one in self.splits]
        return "\n".join(lines) or f"{self.about}: no feature can be split."


def strongest_splits(
    waves: Sequence[Wave],
    contrast: Contrast,
    *,
    search: int = 1,
    most: int = 3,
    labels: Sequence[str] = (),
    level: float = 0.95,
    charges: Sequence[float] = (),
    planned: Sequence[PlannedDesign] = (),
    fitted: Sequence[WaveSummary] = (),
    eligible: tuple[int, ...] = (),
) -> FoundSplits:
    """Find the features by which a contrast differs most, and evaluate them on later waves.

    Parameters
    ----------
    waves
        All waves. This makes two passes over each wave, or one with `fitted`.
    contrast
        A mean or a lift.
    search
        The number of first waves in which to find splits.
    most
        The maximum number of splits to evaluate; at most one per feature.
    labels
        The names of the features, the constant first.
    level, planned
        See :func:`within_segments`.
    charges, fitted
        See :func:`~seqbatch.inference.summary.summarise`.
    eligible
        Use only the units that could get all of these actions; all units if there are none.
    """
    arguments.integer("search", search)
    if search >= len(waves):
        rule = f"below the number of waves, {len(waves)}, to leave some for evaluation"
        raise InvalidArgumentError("search", rule, search)
    candidates = candidate_splits(waves[0], labels)
    ask = partial(summarise, contrasts=[contrast], charges=charges)
    among = {one: AmongEligible(one, eligible) if eligible else one for one in candidates}
    first = ask(waves[:search], partitions=list(among.values()), fitted=fitted)
    chosen = _strongest(first, contrast, among, most)
    kept = [among[one] for one in chosen]
    both = ask(waves[search:], partitions=kept, earlier=first, fitted=fitted[search:])
    later = both[search:]
    sides = [
        _sides(later, contrast, (split, among[split]), level, planned[search:]) for split in chosen
    ]
    adjusted = adjusted_p_values([gap for _, _, gap in sides])
    splits = [
        FoundSplit(split=split, above=above, below=below, difference=gap, adjusted_p=p)
        for split, (above, below, gap), p in zip(chosen, sides, adjusted, strict=True)
    ]
    return FoundSplits(
        about=contrast.name, searched=search, judged=len(later), splits=tuple(splits)
    )


def candidate_splits(first: Wave, labels: Sequence[str] = ()) -> list[Split]:
    """Return the possible splits: at quartiles of the first wave, in one pass."""
    counts = ValueCounts.of_columns(rows.features for rows in pieces(first))
    found = []
    for column, values in enumerate(counts):
        if column:
            name = labels[column] if column < len(labels) else ""
            found += [Split(column, t, name) for t in _thresholds(values)]
    return found


def _thresholds(values: ValueCounts) -> list[float]:
    shares = {at: values.share_above(at) for at in map(values.quantile, QUANTILES)}
    # A 0/1 feature with few ones has all quartiles at 0: that is its only split.
    return [one for one, above in shares.items() if SMALLEST <= above <= 1 - SMALLEST]


def _sides(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    named: tuple[Split, Partition],
    level: float,
    planned: Sequence[PlannedDesign],
) -> tuple[Interval, Interval, Interval]:
    """Return the contrast above and below, and the difference."""
    split, partition = named
    above, below = (
        in_segment(summaries, contrast, (partition, side), level=level, planned=planned)
        for side in (True, False)
    )
    return above, below, difference(above, below, f"{contrast.name}, {split.name}, minus below")


def _strongest(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    candidates: Mapping[Split, Partition],
    most: int,
) -> list[Split]:
    """Return the splits with the largest statistics, one per feature."""
    best: dict[int, tuple[float, Split]] = {}
    for split, partition in candidates.items():
        above, below = (
            shape_by_size(summaries, contrast, (partition, side)) for side in (True, False)
        )
        gap = None if above is None or below is None else _difference(above, below)
        size = abs(gap.estimate / gap.error) if gap is not None and gap.error else 0.0
        if size > best.get(split.column, (0.0, split))[0]:
            best[split.column] = size, split
    ranked = sorted(best.values(), key=lambda pair: -pair[0])
    return [split for _, split in ranked[:most]]

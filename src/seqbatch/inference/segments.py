"""Lifts within segments: declared ones, and splits found in earlier waves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray, Floats
from seqbatch.document import Table, shown
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.estimates import pool, pooled_df
from seqbatch.inference.intervals import Interval, student, unknown
from seqbatch.inference.multiplicity import holm
from seqbatch.inference.rows import Wave, pieces
from seqbatch.inference.summary import Missing, Partition, Split, WaveSummary, summarise

# ----------------------------------------------------------------------
# For whom: lifts within segments, corrected for how many there are.


@dataclass(frozen=True, kw_only=True)
class SegmentFinding:
    """A contrast within one segment.

    Parameters
    ----------
    partition, segment
        What units are divided by, and which of the parts this is.
    interval
        The contrast among the segment's units alone.
    adjusted_p
        Its p-value by Holm over all segments asked about.
    """

    partition: str
    segment: Any
    interval: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class Segments:
    """A contrast within each segment.

    Parameters
    ----------
    about
        The contrast.
    findings
        One for each segment.
    """

    about: str
    findings: tuple[SegmentFinding, ...]

    def tables(self) -> list[Table]:
        """Return the segments as one table."""
        columns = ("by", "segment", "estimate", "low", "high", "p (Holm)")
        rows = [
            (
                one.partition,
                str(one.segment),
                one.interval.estimate,
                one.interval.low,
                one.interval.high,
                one.adjusted_p,
            )
            for one in self.findings
        ]
        words = ("by", "segment")
        return [Table(f"{self.about}, by segment", columns, rows, words=words, keys=2)]

    def _repr_html_(self) -> str:
        return shown(str(self), self.tables())

    def __str__(self) -> str:
        lines = [
            f"{one.partition} = {one.segment}: {one.interval} (p = {one.adjusted_p:.3f} by Holm)"
            for one in self.findings
        ]
        return "\n".join(lines)


def within_segments(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    partitions: Sequence[Partition],
    *,
    level: float = 0.95,
) -> Segments:
    """Return a contrast within each segment of partitions that were fixed before the campaign.

    Intervals are each segment's own; the p-values are corrected for the number of segments.

    Parameters
    ----------
    summaries
        The waves, summed up with these partitions.
    contrast
        A mean or a lift.
    shares
        The plan's share of each wave.
    partitions
        How units are divided.
    level
        The coverage of each interval.
    """
    found = []
    for partition in partitions:
        for level_name in levels_of(summaries, partition):
            part = (partition, level_name)
            interval = pool(summaries, contrast, shares, level=level, segment=part)
            found.append((partition.name, level_name, interval))
    adjusted = adjusted_p_values([interval for _, _, interval in found])
    return Segments(
        about=contrast.name,
        findings=tuple(
            SegmentFinding(partition=name, segment=segment, interval=interval, adjusted_p=p)
            for (name, segment, interval), p in zip(found, adjusted, strict=True)
        ),
    )


def levels_of(summaries: Sequence[WaveSummary], partition: Partition) -> list[Any]:
    """Return the segments of a partition that have units in some wave, sorted."""
    return sorted(
        {segment for one in summaries for owner, segment in one.segments if owner == partition}
    )


def adjusted_p_values(intervals: Sequence[Interval]) -> tuple[float, ...]:
    """Return Holm's p-values; what is not known counts as 1, as it was asked."""
    return holm([1.0 if np.isnan(one.p_value) else one.p_value for one in intervals])


def difference(one: Interval, other: Interval, about: str) -> Interval:
    """Return the difference of two estimates from different units."""
    if not (one.known and other.known):
        return unknown(about, level=one.level, note=f"{one.note} {other.note}".strip())
    parts = np.array([one.error**2, other.error**2])
    df = pooled_df(parts, np.array([one.df, other.df]))
    gap = one.estimate - other.estimate
    return student(about, gap, float(parts.sum()), df, level=one.level)


# ----------------------------------------------------------------------
# Segments that nobody declared: the strongest splits of earlier waves, judged on later ones.
#
# Where a split was looked for, its size is luck in part. Waves that had no say in the choice are
# the ones to ask.


#: Where a feature may be split, and the smallest share of units on either side.
QUANTILES, SMALLEST = (0.25, 0.5, 0.75), 0.1


@dataclass(frozen=True, kw_only=True)
class FoundSplit:
    """A split, as the later waves see it.

    Parameters
    ----------
    split
        What divides the units.
    above, below
        The contrast on either side.
    difference
        Above less below.
    adjusted_p
        The difference's p-value by Holm over the splits that were chosen.
    """

    split: Split
    above: Interval
    below: Interval
    difference: Interval
    adjusted_p: float


@dataclass(frozen=True, kw_only=True)
class FoundSplits:
    """The strongest splits of earlier waves, judged on later ones.

    Parameters
    ----------
    about
        The contrast.
    searched, judged
        How many waves had a say in the choice, and how many judged it.
    splits
        The strongest first, by the waves that chose.
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
            f"judged on the {self.judged} after"
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
    shares: Sequence[float],
    *,
    search: int = 1,
    most: int = 3,
    labels: Sequence[str] = (),
    level: float = 0.95,
    missing: Missing = "by action",
    fitted: Sequence[WaveSummary] = (),
) -> FoundSplits:
    """Find the features by which a contrast differs most, and judge them on fresh waves.

    Parameters
    ----------
    waves
        All waves; two passes over the first `search` of them and two over all, or one each with
        `fitted`.
    contrast
        A mean or a lift.
    shares
        The plan's share of each wave.
    search
        How many of the first waves choose.
    most
        How many splits to judge; at most one for each feature.
    labels
        The features' names, the constant's first.
    level, missing, fitted
        See :func:`~seqbatch.inference.estimates.pool` and
        :func:`~seqbatch.inference.summary.summarise`.
    """
    arguments.integer("search", search)
    if search >= len(waves):
        rule = f"below the number of waves, {len(waves)}, so that some are left to judge"
        raise InvalidArgumentError("search", rule, search)
    candidates = candidate_splits(waves[0], labels)
    ask = partial(summarise, contrasts=[contrast], missing=missing, fitted=fitted)
    chosen = _strongest(
        ask(waves[:search], partitions=candidates), contrast, shares, candidates, most
    )
    later = ask(waves, partitions=chosen)[search:]
    sides = [_sides(later, contrast, shares[search:], split, level) for split in chosen]
    adjusted = adjusted_p_values([gap for _, _, gap in sides])
    splits = [
        FoundSplit(split=split, above=above, below=below, difference=gap, adjusted_p=p)
        for split, (above, below, gap), p in zip(chosen, sides, adjusted, strict=True)
    ]
    return FoundSplits(
        about=contrast.name, searched=search, judged=len(later), splits=tuple(splits)
    )


def candidate_splits(first: Wave, labels: Sequence[str] = ()) -> list[Split]:
    """Return where features may be split: at quartiles of the first piece of the first wave."""
    features = next(iter(pieces(first))).features
    found = []
    for column in range(1, features.shape[1]):
        name = labels[column] if column < len(labels) else ""
        found += [Split(column, t, name) for t in _thresholds(features[:, column])]
    return found


def _thresholds(values: Floats) -> list[float]:
    quartiles: AnyArray = np.unique(np.quantile(values, QUANTILES, method="lower"))
    shares = {float(one): float((values > one).mean()) for one in quartiles}
    # A feature of 0 and 1 with few ones has all quartiles at 0: that is its only split.
    return [one for one, above in shares.items() if SMALLEST <= above <= 1 - SMALLEST]


def _sides(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    split: Split,
    level: float,
) -> tuple[Interval, Interval, Interval]:
    """Return the contrast above and below, and the difference."""
    parts: list[tuple[Split, Any]] = [(split, True), (split, False)]
    above, below = (pool(summaries, contrast, shares, level=level, segment=part) for part in parts)
    return above, below, difference(above, below, f"{contrast.name}, {split.name}, against below")


def _strongest(
    summaries: Sequence[WaveSummary],
    contrast: Contrast,
    shares: Sequence[float],
    candidates: Sequence[Split],
    most: int,
) -> list[Split]:
    """Return the splits with the largest statistics, one for each feature."""
    best: dict[int, tuple[float, Split]] = {}
    for split in candidates:
        gap = _sides(summaries, contrast, shares, split, 0.95)[2]
        size = abs(gap.estimate / gap.error) if gap.known and gap.error else 0.0
        if size > best.get(split.column, (0.0, split))[0]:
            best[split.column] = size, split
    ranked = sorted(best.values(), key=lambda pair: -pair[0])
    return [split for _, split in ranked[:most]]

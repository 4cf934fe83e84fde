"""For whom: lifts within segments, corrected for how many there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqbatch.display import Table, shown
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.holm import holm
from seqbatch.inference.intervals import Interval, student, unknown
from seqbatch.inference.partitions import Partition
from seqbatch.inference.pooling import pool, pooled_df
from seqbatch.inference.summary import WaveSummary


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

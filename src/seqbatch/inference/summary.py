"""The summary of a campaign's waves, in one pass over the data, overall and by segment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast, all_contrasts
from seqbatch.inference.model import (
    Evidence,
    OutcomeModel,
    Returned,
    ReturnedByAction,
    ReturnedByFeatures,
    score,
)
from seqbatch.inference.rows import Moments, Rows, ScoreColumns, ScoreSums, Wave, pieces

# ----------------------------------------------------------------------
# Ways to divide units into segments.


class Partition(Protocol):
    """Says in which segment a unit is; it must not look at outcomes."""

    @property
    def name(self) -> str:
        """What it divides by."""

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""


@dataclass(frozen=True)
class Declared:
    """A column of segments that came with the units, fixed before the campaign."""

    name: str

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""
        if self.name not in rows.groups:
            known = ", ".join(rows.groups) or "none"
            raise InvalidArgumentError("partition", f"one of the rows' groups ({known})", self.name)
        return rows.groups[self.name]


@dataclass(frozen=True)
class Eligible:
    """Units that could have got each of some actions, and the others.

    Parameters
    ----------
    actions
        Their numbers.
    """

    actions: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it divides by."""
        return f"eligible for {' and '.join(f'action {action}' for action in self.actions)}"

    def levels(self, rows: Rows) -> AnyArray:
        """Say for each unit whether it is eligible for all of them."""
        if rows.eligible is None:
            return np.ones(rows.count, dtype=np.bool_)
        among: AnyArray = np.logical_and.reduce(rows.eligible[:, list(self.actions)], axis=1)
        return among


@dataclass(frozen=True)
class Split:
    """Units whose feature lies above a threshold, and the others.

    Parameters
    ----------
    column
        The place of the feature among the model's columns.
    threshold
        A unit at the threshold lies below.
    label
        The feature's name.
    """

    column: int
    threshold: float
    label: str = ""

    @property
    def name(self) -> str:
        """What it divides by."""
        return f"{self.label or f'column {self.column}'} above {self.threshold:.4g}"

    def levels(self, rows: Rows) -> AnyArray:
        """Say for each unit whether it lies above."""
        above: AnyArray = rows.features[:, self.column] > self.threshold
        return above


# ----------------------------------------------------------------------
# A campaign's waves, summed up in one go through the data, whatever their size.
#
# Wave by wave: a first pass over its pieces adds to the sums that the model needs, a second scores
# its units. What remains is a few numbers for each contrast. Memory does not grow with the number
# of units, but for sums over clusters; outcomes missing by feature need further passes.


Missing = Literal["by action", "by features"]
#: A partition and one of its segments.
Segment = tuple[Partition, Any]


@dataclass(frozen=True, eq=False)
class WaveSummary:
    """What is kept of a wave.

    Parameters
    ----------
    contrasts
        What was asked, in the order of the tallies' columns.
    overall
        Sums over the wave's units.
    segments
        Sums over the units of each segment.
    evidence
        What the model of this wave was fitted to: waves 1 to m.
    squared_residuals, residuals
        Sum and number of the e_i^2 of waves 1 to m.
    returned
        How likely outcomes come back, as of this wave.
    features
        Moments of the wave's features.
    """

    contrasts: tuple[Contrast, ...]
    overall: ScoreSums
    segments: Mapping[Segment, ScoreSums]
    evidence: Evidence
    squared_residuals: float
    residuals: int
    returned: Returned
    features: Moments

    @property
    def noise(self) -> float:
        """sigma^2: the mean of all squared residuals so far."""
        return self.squared_residuals / max(self.residuals, 1)

    def place(self, contrast: Contrast) -> int:
        """Return the column of a contrast."""
        if contrast not in self.contrasts:
            known = ", ".join(one.name for one in self.contrasts)
            raise InvalidArgumentError("contrast", f"one of those summed up: {known}", contrast)
        return self.contrasts.index(contrast)


def summarise(
    waves: Sequence[Wave],
    *,
    contrasts: Sequence[Contrast] | None = None,
    partitions: Sequence[Partition] = (),
    missing: Missing = "by action",
    earlier: Sequence[WaveSummary] = (),
    fitted: Sequence[WaveSummary] = (),
) -> tuple[WaveSummary, ...]:
    """Sum up the waves of a campaign, in their order.

    Parameters
    ----------
    waves
        The units of each wave: rows, or an iterable of pieces that can be gone through twice.
    contrasts
        What will be asked; all means, lifts and gains if not said.
    partitions
        Ways to divide units into segments.
    missing
        What missing outcomes depend on: the action alone, or features too, which takes several
        passes over all waves so far.
    earlier
        Waves before these that were summed up already, which are returned with the others; not
        where outcomes are missing by features.
    fitted
        Summaries of these very waves, made to answer other questions: their models are taken as
        they are, which saves the passes that fitting takes.
    """
    arguments.choice("missing", missing, ("by action", "by features"))
    if earlier and missing == "by features":
        raise InvalidArgumentError("earlier", "none where missing is by features", len(earlier))
    made = list(earlier)
    for number, wave in enumerate(waves):
        if fitted:
            known = fitted[number].evidence, fitted[number].returned
        else:
            before = made[-1].evidence if made else None
            known = _fitted(waves[: number + 1], before, missing)
        made.append(_summary(wave, made, contrasts, partitions, *known))
    return tuple(made)


def _fitted(
    so_far: Sequence[Wave], before: Evidence | None, missing: Missing
) -> tuple[Evidence, Returned]:
    """Go through the last wave, and through all where outcomes are missing by features."""
    evidence = gathered(so_far[-1], before)
    if missing == "by action":
        return evidence, ReturnedByAction.fitted(evidence)
    rows = list(map(pieces, so_far))
    return evidence, ReturnedByFeatures.fitted(_Chained(rows), evidence)


def _summary(
    wave: Wave,
    earlier: Sequence[WaveSummary],
    contrasts: Sequence[Contrast] | None,
    partitions: Sequence[Partition],
    evidence: Evidence,
    returned: Returned,
) -> WaveSummary:
    asked = tuple(contrasts or all_contrasts(len(evidence.assigned)))
    model = OutcomeModel.fitted(evidence)
    squares = earlier[-1].squared_residuals if earlier else 0.0
    overall: ScoreSums | None = None
    segments: dict[Segment, ScoreSums] = {}
    features = Moments.of(np.empty((0, evidence.statistics.dim)))
    for piece in pieces(wave):
        scores = score(piece, model, returned)
        known = scores.residuals[piece.returned]
        squares += float(known @ known)
        columns = ScoreColumns.of(piece, scores.values, asked)
        overall = columns.tally() if overall is None else overall.merge(columns.tally())
        features = features.merge(Moments.of(piece.features))
        _divide(columns, partitions, segments)
    if overall is None or not overall.units:
        raise InvalidArgumentError("waves", "of at least one unit each", "a wave without units")
    count = int(evidence.statistics.count.sum())
    return WaveSummary(asked, overall, segments, evidence, squares, count, returned, features)


def gathered(wave: Wave, earlier: Evidence | None = None) -> Evidence:
    """Return the evidence of a wave, added to that of earlier waves."""
    evidence = earlier
    for piece in pieces(wave):
        if evidence is None:
            evidence = Evidence.zero(piece.actions_number, piece.features.shape[1])
        evidence = evidence.with_rows(piece)
    if evidence is None:
        raise InvalidArgumentError("waves", "of at least one unit each", "a wave without units")
    return evidence


def _divide(
    columns: ScoreColumns, partitions: Sequence[Partition], segments: dict[Segment, ScoreSums]
) -> None:
    """Add a piece's units to their segments."""
    for partition in partitions:
        levels = partition.levels(columns.rows)
        for level in np.unique(levels).tolist():
            part, key = columns.tally(levels == level), (partition, level)
            segments[key] = segments[key].merge(part) if key in segments else part


@dataclass(frozen=True)
class _Chained:
    """Several waves as one that can be gone through again."""

    waves: Sequence[Iterable[Rows]]

    def __iter__(self) -> Any:
        return chain.from_iterable(self.waves)

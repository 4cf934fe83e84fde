"""Summaries of a campaign's waves, overall and by segment, in one pass over the data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

import numpy as np

from seqbatch.core import arguments
from seqbatch.core.arrays import AnyArray
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast, all_contrasts
from seqbatch.inference.doubly_robust_scores import (
    Evidence,
    OutcomeModel,
    Returned,
    ReturnedByAction,
    ReturnedByFeatures,
    score,
)
from seqbatch.inference.logged_units import (
    Moments,
    Rows,
    ScoreColumns,
    ScoreSums,
    Wave,
    missing_levels,
    pieces,
)

# ----------------------------------------------------------------------
# Partitions of units into segments.


class Partition(Protocol):
    """A division of units into segments, which must not depend on outcomes."""

    @property
    def name(self) -> str:
        """Its name."""

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""


@dataclass(frozen=True)
class Declared:
    """A column of segments that came with the units and was fixed before the campaign."""

    name: str

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit."""
        if self.name not in rows.groups:
            known = ", ".join(rows.groups) or "none"
            raise InvalidArgumentError("partition", f"one of the rows' groups ({known})", self.name)
        return rows.groups[self.name]


@dataclass(frozen=True)
class Eligible:
    """Units that could have got all of the given actions, and the others.

    Parameters
    ----------
    actions
        The numbers of the actions.
    """

    actions: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return f"eligible for {' and '.join(f'action {action}' for action in self.actions)}"

    def levels(self, rows: Rows) -> AnyArray:
        """Return for each unit whether it is eligible for all of them."""
        if rows.eligible is None:
            return np.ones(rows.count, dtype=np.bool_)
        among: AnyArray = np.logical_and.reduce(rows.eligible[:, list(self.actions)], axis=1)
        return among


@dataclass(frozen=True)
class Split:
    """Units whose feature exceeds a threshold, and the others.

    Parameters
    ----------
    column
        The index of the feature among the model's columns.
    threshold
        The threshold; a unit at the threshold is below.
    label
        The feature's name.
    """

    column: int
    threshold: float
    label: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.label or f'column {self.column}'} above {self.threshold:.4g}"

    def levels(self, rows: Rows) -> AnyArray:
        """Return for each unit whether it is above."""
        above: AnyArray = rows.features[:, self.column] > self.threshold
        return above


# ----------------------------------------------------------------------
# Summaries of waves.
#
# For each wave, a first pass over its pieces adds to the sums for the model, and a second one
# scores its units. Only a few numbers per contrast remain. Memory does not grow with the number of
# units, except for sums over clusters; outcomes missing by features need further passes.


Missing = Literal["by action", "by features"]
#: A partition and one of its segments.
Segment = tuple[Partition, Any]


@dataclass(frozen=True, eq=False)
class WaveSummary:
    """The summary of a wave.

    Parameters
    ----------
    contrasts
        The contrasts, in the order of the columns of the sums.
    overall
        Sums over the wave's units.
    segments
        Sums over the units of each segment.
    evidence
        The evidence to which this wave's model was fitted: waves 1 to m.
    squared_residuals, residuals
        The sum and number of the e_i^2 of waves 1 to m.
    returned
        The model of missing outcomes, as of this wave.
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
            raise InvalidArgumentError("contrast", f"one of the summary: {known}", contrast)
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
    """Summarise the waves of a campaign, in order.

    Parameters
    ----------
    waves
        The units of each wave: rows, or a re-iterable of pieces.
    contrasts
        The contrasts to estimate later; by default all means, lifts and gains.
    partitions
        Divisions of units into segments.
    missing
        What missing outcomes depend on: only the action, or also features, which takes several
        passes over all waves so far.
    earlier
        Existing summaries of the waves before these, which are returned with the others; not
        supported if outcomes are missing by features.
    fitted
        Existing summaries of the same waves with other contrasts: their models are reused, which
        saves the passes for fitting.
    """
    arguments.choice("missing", missing, ("by action", "by features"))
    if earlier and missing == "by features":
        raise InvalidArgumentError("earlier", "empty if missing is by features", len(earlier))
    summaries = list(earlier)
    for number, wave in enumerate(waves):
        if fitted:
            known = fitted[number].evidence, fitted[number].returned
        else:
            before = summaries[-1].evidence if summaries else None
            known = _fitted(waves[: number + 1], before, missing)
        summaries.append(_summary(wave, summaries, contrasts, partitions, *known))
    return tuple(summaries)


def _fitted(
    so_far: Sequence[Wave], before: Evidence | None, missing: Missing
) -> tuple[Evidence, Returned]:
    """Pass over the last wave, and over all waves if outcomes are missing by features."""
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
        gone = missing_levels(levels)
        among = {level: levels == level for level in np.unique(levels[~gone]).tolist()}
        for level, units in {**among, **({None: gone} if gone.any() else {})}.items():
            part, key = columns.tally(units), (partition, level)
            segments[key] = segments[key].merge(part) if key in segments else part


@dataclass(frozen=True)
class _Chained:
    """Several waves as one re-iterable."""

    waves: Sequence[Iterable[Rows]]

    def __iter__(self) -> Any:
        return chain.from_iterable(self.waves)

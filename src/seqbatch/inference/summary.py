"""Summaries of a campaign's waves, overall and by segment, in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from seqbatch.core import Statistics
from seqbatch.core.arrays import AnyArray, Floats, Integers
from seqbatch.errors import InvalidArgumentError
from seqbatch.inference.contrasts import Contrast, Lift, Mean, all_contrasts
from seqbatch.inference.doubly_robust_scores import CommonShift, OutcomeModel, score
from seqbatch.inference.evidence import Events, Evidence, gathered
from seqbatch.inference.logged_units import Rows, Wave, missing_levels, pieces
from seqbatch.inference.return_model import SCARCE, ReturnModel
from seqbatch.inference.score_sums import (
    JointMoments,
    Moments,
    ResidualSums,
    ScoreColumns,
    ScoreSums,
    Weighing,
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


@dataclass(frozen=True)
class AmongEligible:
    """The segments of a partition, among the units that could have got all of the given actions.

    Parameters
    ----------
    partition
        How units are divided.
    actions
        The numbers of the actions.
    """

    partition: Partition
    actions: tuple[int, ...]

    @property
    def name(self) -> str:
        """The partition's name."""
        return self.partition.name

    def levels(self, rows: Rows) -> AnyArray:
        """Return the segment of each unit, eligible or not; :meth:`among` says which count."""
        return self.partition.levels(rows)

    def among(self, rows: Rows) -> AnyArray:
        """Return which units count."""
        return Eligible(self.actions).levels(rows)


# ----------------------------------------------------------------------
# Summaries of waves.
#
# For each wave, a first pass over its pieces adds to the sums for the models, a second one fits the
# return model if outcomes are missing, and a last one scores its units. Only a few numbers per
# contrast remain. Memory does not grow with the number of units, except for sums over clusters.


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
    residuals
        Sums of the residuals of waves 1 to m.
    returned
        The return model, as of this wave.
    scarce
        How many units of each action are of a kind whose outcomes hardly ever come back.
    features
        Moments of the wave's features.
    joint
        Means and covariances of the scores G_i(a) of all actions.
    usual
        The usual outcome, 0 or 1, from which parts of contrasts are counted.
    charges
        The cost of each action, which every estimate subtracts.
    """

    contrasts: tuple[Contrast, ...]
    overall: ScoreSums
    segments: Mapping[Segment, ScoreSums]
    evidence: Evidence
    residuals: ResidualSums
    returned: ReturnModel
    scarce: Integers
    features: Moments
    joint: JointMoments
    usual: float
    charges: Floats
    #: Estimates that were asked for, by contrast and segment.
    estimates: dict[tuple[Contrast, Segment | None], Any] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def events(self) -> Events:
        """The events of waves 1 to m."""
        return self.evidence.events(self.usual)

    def tally(self, segment: Segment | None) -> ScoreSums | None:
        """Return the sums over all units, or over a segment's; None if it has no unit here."""
        return self.overall if segment is None else self.segments.get(segment)

    def place(self, contrast: Contrast, segment: Segment | None = None) -> int:
        """Return the column of a contrast; segments have columns for means and lifts alone."""
        columns = self.contrasts if segment is None else of_segments(self.contrasts)
        if contrast not in columns:
            known = ", ".join(one.name for one in columns)
            raise InvalidArgumentError("contrast", f"one of the summary: {known}", contrast)
        return columns.index(contrast)


def statistics_by_wave(summaries: Sequence[WaveSummary]) -> tuple[Statistics, ...]:
    """Return the sums over each wave's own units with outcomes."""
    return statistics_of([one.evidence for one in summaries])


def statistics_of(evidence: Sequence[Evidence]) -> tuple[Statistics, ...]:
    """Return the sums over each wave's own units, from the evidence after each wave."""
    sums = [one.statistics for one in evidence]
    later = (new.subtract(old) for old, new in pairwise(sums))
    return (*sums[:1], *later)


def of_segments(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """Return the contrasts that are also summed within segments: means and lifts."""
    return tuple(one for one in contrasts if isinstance(one, Mean | Lift))


def summarise(
    waves: Sequence[Wave],
    *,
    contrasts: Sequence[Contrast] | None = None,
    partitions: Sequence[Partition] = (),
    charges: Sequence[float] = (),
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
    charges
        The cost of each action, in the unit of the outcomes; none by default. Outcomes are given
        before costs: a cost is known exactly, so it moves estimates and adds no uncertainty.
    earlier
        Existing summaries of the waves before these, which are returned with the others.
    fitted
        Existing summaries of the same waves with other contrasts: their models are reused, which
        saves the passes for fitting.
    """
    summaries = list(earlier)
    for number, wave in enumerate(waves):
        before = summaries[-1] if summaries else None
        if fitted:
            known = fitted[number].evidence, fitted[number].returned
        else:
            known = _fitted(wave, before)
        costs = _charges(charges, len(known[0].zeros))
        summaries.append(_summary(wave, before, contrasts, partitions, costs, *known))
    return tuple(summaries)


def _fitted(wave: Wave, before: WaveSummary | None) -> tuple[Evidence, ReturnModel]:
    """Pass over a wave for its evidence, and again for its return model if outcomes are missing."""
    if before is None:
        evidence = gathered(wave)
        return evidence, ReturnModel.fitted(wave, evidence)
    evidence = gathered(wave, before.evidence)
    return evidence, ReturnModel.fitted(
        wave, evidence, earlier=before.evidence, before=before.returned
    )


def _charges(charges: Sequence[float], actions: int) -> Floats:
    if len(charges) not in (0, actions):
        raise InvalidArgumentError("charges", f"one for each of {actions} actions", len(charges))
    return np.array(charges or [0.0] * actions, dtype=np.float64)


def _summary(
    wave: Wave,
    before: WaveSummary | None,
    contrasts: Sequence[Contrast] | None,
    partitions: Sequence[Partition],
    charges: Floats,
    evidence: Evidence,
    returned: ReturnModel,
) -> WaveSummary:
    actions = len(evidence.zeros)
    asked = tuple(contrasts or all_contrasts(actions))
    fit = Fitted.of(evidence, returned, before)
    residuals = ResidualSums.zero(actions) if before is None else before.residuals
    overall: ScoreSums | None = None
    segments: dict[Segment, ScoreSums] = {}
    features = Moments.of(np.empty((0, evidence.statistics.dim)))
    joint = JointMoments.of(np.empty((0, actions)))
    scarce = np.zeros(actions, dtype=np.int64)
    for piece in pieces(wave):
        q, back = returned.of(piece), piece.returned
        scores = score(piece, fit.model, q, fit.shift)
        residuals = residuals.with_residuals(scores.residuals[back], piece.actions[back])
        columns = ScoreColumns.of(Weighing.of(piece, asked), scores.values, q, usual=fit.usual)
        overall = columns.tally() if overall is None else overall.merge(columns.tally())
        features = features.merge(Moments.of(piece.features))
        joint = joint.merge(JointMoments.of(scores.values))
        scarce = scarce + _scarce(piece, q)
        if partitions:
            _divide(columns, _places(piece, partitions), segments)
    if overall is None or not overall.units:
        raise InvalidArgumentError("waves", "of at least one unit each", "a wave without units")
    return WaveSummary(
        contrasts=asked,
        overall=overall,
        segments=segments,
        evidence=evidence,
        residuals=residuals,
        returned=returned,
        scarce=scarce,
        features=features,
        joint=joint,
        usual=fit.usual,
        charges=charges,
    )


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a wave's units are scored with.

    Parameters
    ----------
    evidence
        The evidence of waves 1 to m.
    returned
        The return model, as of this wave.
    model, shift
        The outcome model, and the wave's common shift.
    usual
        The usual outcome, 0 or 1, from which parts of contrasts are counted.
    """

    evidence: Evidence
    returned: ReturnModel
    model: OutcomeModel
    shift: CommonShift
    usual: float

    @classmethod
    def of(
        cls, evidence: Evidence, returned: ReturnModel, before: WaveSummary | Fitted | None
    ) -> Fitted:
        """Fit the models of a wave; `before` is the wave before it."""
        model = OutcomeModel.fitted(evidence)
        own = evidence if before is None else evidence.without(before.evidence)
        shift = CommonShift.of(own.statistics, model)
        return cls(evidence, returned, model, shift, _usual(evidence, before))


def _usual(evidence: Evidence, before: WaveSummary | Fitted | None) -> float:
    """Return the usual outcome; it is fixed by the first wave that has outcomes."""
    settled = before is not None and before.evidence.outcomes
    return before.usual if before is not None and settled else evidence.usual


def _scarce(rows: Rows, returned: Floats) -> Integers:
    """Count the units of each action whose outcomes hardly ever come back."""
    few = np.broadcast_to(returned, (rows.count, rows.actions_number)) < SCARCE
    own = few[np.arange(rows.count), rows.actions]
    return np.bincount(rows.actions[own], minlength=rows.actions_number)


def _places(rows: Rows, partitions: Sequence[Partition]) -> Iterator[tuple[Segment, Integers]]:
    """Yield the segments of a piece, and the places of their units."""
    for partition in partitions:
        levels = partition.levels(rows)
        gone = missing_levels(levels)
        # To look for both of two levels is faster than to sort them.
        two = levels.dtype == np.bool_
        met = (False, True) if two else np.unique(levels[~gone]).tolist()
        among = {level: levels == level for level in met}
        own = partition.among(rows) if isinstance(partition, AmongEligible) else True
        for level, units in {**among, None: gone}.items():
            if (units & own).any():
                yield (partition, level), np.flatnonzero(units & own)


def _divide(
    columns: ScoreColumns,
    places: Iterable[tuple[Segment, Integers]],
    segments: dict[Segment, ScoreSums],
) -> None:
    """Add a piece's units to their segments."""
    columns = columns.only(of_segments(columns.contrasts))
    for segment, units in places:
        part = columns.some(units).tally()
        segments[segment] = segments[segment].merge(part) if segment in segments else part

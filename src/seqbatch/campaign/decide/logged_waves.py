"""Prepare a campaign's waves for inference: unit rows, and what was planned for each wave."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.campaign_waves import CampaignWaves, ModelColumns
from seqbatch.campaign.decide.draws import draws
from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.files.ids import id_columns
from seqbatch.campaign.record.current_situation import Situation, history
from seqbatch.campaign.record.events import utc_now
from seqbatch.campaign.record.outcomes import (
    CELLS,
    Newest,
    absent_since,
    assigned_by,
    counted,
    part_name,
    parts_of,
)
from seqbatch.campaign.record.store import Event, OutcomeChunk, Reader
from seqbatch.campaign.record.stored_units import Piece, walk
from seqbatch.campaign.spec.metrics import Metric
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.inference import (
    NextRule,
    PlannedDesign,
    PlanOfShares,
    Rows,
    WaveSummary,
    judge_next_rule,
    plan_of_shares,
    planned_units,
    share_when_assigned,
    summarise,
)
from seqbatch.inference.boosted_trees import MarkedRows
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.score_sums import Moments
from seqbatch.inference.summary import Partition, Segment

# ----------------------------------------------------------------------
# The share of the variance that each wave contributes to pooled estimates.
#
# Shares are fixed without looking at the wave's outcomes. Normally they come from the plan at
# creation. In calendar campaigns and after an amendment, a wave's share depends on its units and
# their assignment probabilities. Wave sizes adopted from a proposal depend on earlier outcomes, so
# the shares still use the sizes declared before. The waves' statistics are then independent
# standard normals in fixed proportions, whatever the actual sizes.


#: The lowest probability assumed in planning if the campaign sets no floor or randomised share.
LEAST = 0.001

#: Shares below this are rounding errors.
NOTHING = 1e-6


@dataclass(frozen=True)
class PlannedWave:
    """The parts of a wave's plan that were fixed before its outcomes.

    Parameters
    ----------
    share
        Its share of the variance in the plan at creation; None if that plan no longer applies.
    rest
        The sum of n/D over the waves still planned after it, where D is the cost of one action.
    active
        The numbers of the active actions.
    design
        Its planned size, and the costs of estimates from it.
    waves
        How many waves the campaign was to have.
    """

    share: float | None
    rest: float
    active: tuple[int, ...]
    design: PlannedDesign
    waves: int


def planned(then: Situation) -> PlanOfShares:
    """Return each wave's share, from the campaign's sizes, policy, floor and randomised share."""
    actions = max(len(then.active), 2)
    uniform, floor = kept_up(then)
    policy = then.made_policy()
    return plan_of_shares(
        then.declared,
        actions=actions,
        randomised=uniform,
        floor=floor,
        policy=policy.sharing,
        ends_greedily=policy.ends_greedily,
        uniform=uniform_waves(then),
    )


def uniform_waves(then: Situation) -> int:
    """Return how many waves are uniform whatever the outcomes, as the plan of shares has it.

    It is the first wave, but not if a policy follows a history from the start.
    """
    return int(then.history is None or then.made_policy().starts_blind)


def kept_up(then: Situation) -> tuple[float, float]:
    """Return the share of units assigned uniformly in later waves, and the floor for the others.

    If the campaign declares neither, return the defaults that inference plans with.
    """
    actions = max(len(then.active), 2)
    uniform, floor = then.spec.randomised, then.floor
    uniform += (1 - uniform) * then.made_policy().explored
    if uniform / actions + (1 - uniform) * floor < LEAST:
        return 0.0, LEAST
    return uniform, floor


def planned_waves(events: Iterable[Event]) -> tuple[PlannedWave, ...]:
    """Return the fixed plan of each wave so far, including the open one."""
    found: list[PlannedWave] = []
    created: Situation | None = None
    before: Situation | None = None
    for then in history(events):
        created = created or then
        if before is not None and then.wave > before.wave:
            found.append(_wave(created, before))
        before = then
    assert created is not None
    assert before is not None
    return (*found, _wave(created, before)) if not before.finished else tuple(found)


def _wave(created: Situation, then: Situation) -> PlannedWave:
    plan, place = planned(then), then.wave - 1
    same = (then.declared, then.floor, then.active) == (
        created.declared, created.floor, created.active
    )  # fmt: skip
    information = [size / cost for size, cost in zip(plan.sizes, plan.costs, strict=True)]
    return PlannedWave(
        share=plan.shares[place] if same and not then.spec.grid.calendar else None,
        rest=sum(information[place + 1 :]),
        active=then.active,
        design=plan.designs[place],
        waves=len(then.sizes),
    )


def shares_of(
    contrast: Contrast,
    summaries: Sequence[WaveSummary],
    waves: Sequence[PlannedWave],
    segment: Segment | None = None,
) -> tuple[float, ...]:
    """Return the share of each wave for a contrast; the shares of all planned waves add up to 1.

    Parameters
    ----------
    contrast
        A mean or a lift.
    summaries, waves
        The waves included in the analysis, and the fixed plan of each.
    segment
        The units to include; None for all of them.
    """
    shares: list[float] = []
    for summary, wave in zip(summaries, waves, strict=True):
        if wave.share is not None:
            shares.append(wave.share)
            continue
        tally = summary.tally(segment)
        if tally is None:
            shares.append(0.0)
            continue
        units = tally.units
        cost = float(tally.costs[summary.place(contrast, segment)] / units)
        usable = np.isfinite(cost) and sum(shares) < 1 - NOTHING
        shares.append(
            share_when_assigned(
                spent=shares, units=units, cost=cost, planned_rest=wave.rest / contrast.arms
            )
            if usable
            else 0.0
        )
    return tuple(shares)


def designs_of(
    contrast: Contrast,
    summaries: Sequence[WaveSummary],
    waves: Sequence[PlannedWave],
    segment: Segment | None = None,
) -> list[PlannedDesign]:
    """Return the plans of the waves in which a contrast can be estimated, with their real sizes."""
    made = []
    for summary, wave in zip(summaries, waves, strict=True):
        tally = summary.tally(segment)
        if tally is not None and np.isfinite(tally.costs[summary.place(contrast, segment)]):
            made.append(replace(wave.design, units=tally.units))
    return made


def units_planned(
    contrast: Contrast,
    summaries: Sequence[WaveSummary],
    waves: Sequence[PlannedWave],
    segment: Segment | None = None,
) -> float:
    """Return the planned effective units of a contrast, with which the rule of events counts."""
    designs = designs_of(contrast, summaries, waves, segment)
    return planned_units(designs, contrast) if designs else 0.0


def information(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the information fraction after each wave, at most 1."""
    return tuple(min(total, 1.0) for total in accumulate(shares))


# ----------------------------------------------------------------------
# The campaign's units as input for inference, wave by wave and chunk by chunk.
#
# The first action is the control. Outcomes are those of the objective's metric, or the objective if
# it has several, before costs of actions. The columns are the model's, standardised with the first
# wave; columns that were constant there are left out. The same rows serve every other metric: only
# their outcomes differ.


#: Bytes of encoded rows to cache between passes; rows beyond this are read and encoded again.
KEPT = 160 * 1024**2
#: Units per piece. Pieces are small because intermediate results take more memory than the units.
PIECE = 16_384
#: The name of the draws by which units are divided into folds and samples.
FOLDS_NAME = "samples and folds"


@dataclass(eq=False)
class Logged(CampaignWaves):
    """A campaign's waves as rows.

    Parameters
    ----------
    reader
        The reader for units and outcomes.
    now
        The campaign's current state, including the scaling learned from the first wave.
    known
        The newest outcome of each unit, including outcomes counted as absent.
    waves
        The waves included in the analysis.
    at
        The time of the analysis, by which some units without a value of a metric count as absent.
    waiting
        The waves left out because units of them have no outcome, and do not count as absent yet.
    segments
        The columns whose values are segments.
    levels
        For each segment column, the number of each value, in the order of first appearance.
    """

    reader: Reader
    now: Situation
    known: Newest
    waves: tuple[int, ...]
    at: datetime
    waiting: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()
    levels: dict[str, dict[str, int]] = field(default_factory=dict)
    _kept: dict[int, Rows] = field(default_factory=dict)
    _room: int = KEPT
    _clusters: dict[str, int] = field(default_factory=dict)

    @cached_property
    def columns(self) -> ModelColumns:
        """The model's columns, computed in one pass over the first included wave."""
        encoder = self.now.encoder()
        moments: Moments | None = None
        for piece in walk(self.reader, wave=self.waves[0], given=True):
            part = Moments.of(encoder.encode(piece.given()))
            moments = part if moments is None else moments.merge(part)
        assert moments is not None
        spread = np.sqrt(moments.variance)
        # The mean of a constant column may differ from the constant in the last digits.
        places = np.flatnonzero(spread > 1e-9 * (1 + np.abs(moments.mean)))
        return ModelColumns.of(encoder, places, moments.mean[places], spread[places])

    def summaries(
        self, contrasts: Sequence[Contrast], partitions: Sequence[Partition], *, metric: str = ""
    ) -> tuple[WaveSummary, ...]:
        """Return the summaries of the waves: of the objective, or of a metric before costs."""
        waves = self.each_wave_of(metric) if metric else self.each_wave
        charges = () if metric else self.charges
        return summarise(waves, contrasts=contrasts, partitions=partitions, charges=charges)

    def next_rule(
        self,
        summaries: Sequence[WaveSummary],
        *,
        level: float,
        less: bool,
        among: Bools,
        planned: float,
        over: int,
    ) -> NextRule:
        """Return the rule to run next, and its gain over one action."""
        return judge_next_rule(
            self.each_wave[-1],
            summaries,
            level=level,
            less=less,
            among=among,
            planned=planned,
            over=over,
        )

    @property
    def each_wave(self) -> list["WaveRows"]:
        """The waves; each can be iterated over repeatedly."""
        return [WaveRows(self, wave) for wave in self.waves]

    def each_wave_of(self, metric: str) -> list["WaveRows"]:
        """The waves with the values of a metric as outcomes."""
        values = self._values(self.now.spec.metrics[metric])
        return [WaveRows(self, wave, values) for wave in self.waves]

    def counts_in(self, wave: int) -> tuple[int, int]:
        """Return how many units of a wave have an outcome, and how many of them count as absent."""
        end = sum(self.now.units[:wave])
        return self.known.counts(end - self.now.units[wave - 1], end)

    def counts_of(self, metric: str) -> tuple[int, int]:
        """Return how many units have a recorded value of a metric, and a value at all."""
        place, ends = self.now.spec.parts.index(metric), np.cumsum((0, *self.now.units))
        known = self._values(self.now.spec.metrics[metric])
        recorded = with_value = 0
        for wave in self.waves:
            own = slice(ends[wave - 1], ends[wave])
            recorded += int((~np.isnan(self._parts[own, place])).sum())
            with_value += int((~np.isnan(known[own])).sum())
        return recorded, with_value

    def recorded_in(self, wave: int) -> dict[str, int]:
        """Return how many values of each metric were recorded in a wave."""
        end = sum(self.now.units[:wave])
        first = end - self.now.units[wave - 1]
        known, absent = self.counts_in(wave)
        counts = (~np.isnan(self._parts[first:end])).sum(axis=0).tolist()
        own = dict(zip(self.now.spec.parts, counts, strict=True))
        return {name: own.get(name, known - absent) for name in self.now.spec.metrics}

    def rows_of(self, wave: int, values: Floats | None = None) -> Iterator[Rows]:
        """Yield a wave's units in pieces; `values` replace the outcomes, by the unit's number."""
        for extent in self.reader.extents(wave=wave):
            rows = self._rows(extent.chunk, marked=wave in (self.waves[0], self.waves[-1]))
            if values is not None:
                rows = replace(rows, outcomes=values[extent.first : extent.first + extent.count])
            for start in range(0, rows.count, PIECE):
                yield rows.some(slice(start, start + PIECE))

    def hashed(self, wave: int) -> Iterator[MarkedRows]:
        """Yield a wave's units in chunks, with hashes of their ids and of their clusters."""
        for extent in self.reader.extents(wave=wave):
            [piece] = walk(self.reader, chunks=[extent.chunk], given=True)
            ids = self._hashes(piece.given().column(0).to_pylist())
            rows = self._rows(extent.chunk, marked=False)
            names = self._cluster_names(piece.given())
            yield MarkedRows(rows, ids, ids if names is None else self._hashes([*map(str, names)]))

    def _hashes(self, names: Sequence[str]) -> AnyArray:
        """Return 64 bits of each name; the draws of the campaign have another key."""
        return draws(0, FOLDS_NAME, names).lot

    def _rows(self, number: int, *, marked: bool) -> Rows:
        """Return the units of a chunk, and cache them if there is room."""
        if number in self._kept:
            return self._kept[number]
        [piece] = walk(self.reader, chunks=[number], given=True)
        made = self._made(piece)
        if marked:
            made = replace(made, marks=self._marks(piece.given()))
        size = made.features.nbytes + made.probabilities.nbytes + 16 * made.count
        if size <= self._room:
            self._room -= size
            self._kept[number] = made
        return made

    def _marks(self, given: pa.Table) -> Integers:
        """Return the marks of units, or of their clusters."""
        names = self._cluster_names(given)
        return marks_of(given.column(0).to_pylist() if names is None else [*map(str, names)])

    def _made(self, piece: Piece) -> Rows:
        now, given = self.now, piece.given()
        decided = piece.decided(now)
        values = self.known.within(piece.chunk.first, piece.chunk.first + piece.chunk.count)
        place_of = np.empty(len(self.order), dtype=np.int64)
        place_of[list(self.order)] = np.arange(len(self.order))
        return Rows(
            features=self.columns.standardised(now.encoder().encode(given)),
            actions=place_of[decided.actions],
            probabilities=np.ascontiguousarray(decided.probabilities[:, list(self.order)]),
            outcomes=now.counted(values) / now.spec.reward.scale,
            clusters=self._cluster_numbers(given),
            groups={name: self._levels(name, given) for name in self.segments},
            eligible=self._eligible(given),
        )

    @cached_property
    def _parts(self) -> Floats:
        """The newest value of each metric beside the reward, by the unit's number; else NaN."""
        chunks = self.reader.outcome_chunks(until_event=self.now.sequence)
        return newest_parts(chunks, self.now.assigned, len(self.now.spec.parts))

    def _values(self, metric: Metric) -> Floats:
        """Return a metric's value of each unit: as recorded, or as absent; NaN if it is missing."""
        values = self._parts[:, self.now.spec.parts.index(metric.name)].copy()
        if metric.cap is not None:
            values = np.minimum(values, metric.cap)
        if metric.absent is not None:
            values[np.isnan(values) & self._due(metric)] = metric.absent
        return values

    def _due(self, metric: Metric) -> Bools:
        """Return which units count as absent without a value.

        Their wave is closed, and the metric's wait after their assignment is over.
        """
        due = np.zeros(self.now.assigned, dtype=np.bool_)
        over: dict[int, bool] = {}
        for extent in self.reader.extents():
            if extent.wave < self.now.wave:
                if extent.event not in over:
                    over[extent.event] = self._over(metric, extent.event)
                due[extent.first : extent.first + extent.count] = over[extent.event]
        return due

    def _over(self, metric: Metric, assignment: int) -> bool:
        """Return whether a metric's wait after an assignment is over."""
        if metric.wait is None:
            return True
        return self.at - datetime.fromisoformat(self.reader.event(assignment).at) >= metric.wait

    def _eligible(self, given: pa.Table) -> Bools | None:
        """Return which units are eligible for which actions, by the rules and not the policy."""
        names = [self.now.actions[number].name for number in self.order]
        rules = Eligibility.of(self.now.spec, names)
        return None if rules is None else rules.mask(given)

    def _levels(self, segment: str, given: pa.Table) -> Integers:
        """Return the segments of some units as numbers, which are positions in `levels`."""
        column = given.column(segment).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        met = self.levels.setdefault(segment, {})
        part = self.now.encoder().parts[segment]
        values = [*column.dictionary.to_pylist(), None]
        names = [_segment(part, value) for value in values]
        codes = np.array([met.setdefault(name, len(met)) for name in names], dtype=np.int64)
        places = column.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        numbers: Integers = codes[places]
        return numbers

    @property
    def clustered(self) -> bool:
        """Whether units may share a cluster."""
        spec = self.now.spec
        return spec.cluster is not None and spec.unit != (spec.cluster,)

    def _cluster_numbers(self, given: pa.Table) -> Integers | None:
        """Return the clusters of some units as numbers, in the order of first appearance."""
        names, met = self._cluster_names(given), self._clusters
        if names is None:
            return None
        return np.array([met.setdefault(name, len(met)) for name in names], dtype=np.int64)

    def _cluster_names(self, given: pa.Table) -> list[Any] | None:
        """Return the clusters of some units."""
        spec = self.now.spec
        if spec.cluster is None or not self.clustered:
            return None
        if spec.cluster in spec.unit:
            column = id_columns(given.column(0).to_pylist(), spec.unit)[spec.cluster]
        else:
            column = given.column(spec.cluster)
        names: list[Any] = column.to_pylist()
        return names


@dataclass(frozen=True, eq=False)
class WaveRows:
    """The units of one wave; can be iterated over repeatedly."""

    logged: Logged
    wave: int
    values: Floats | None = None

    def __iter__(self) -> Iterator[Rows]:
        return self.logged.rows_of(self.wave, self.values)


def newest_parts(chunks: Iterable[OutcomeChunk], units: int, parts: int) -> Floats:
    """Return the newest parts of each unit's outcome, shape (units, parts), NaN if not recorded.

    A part that a newer version leaves out stays as it was.
    """
    found = np.full((units, parts), np.nan)
    versions = np.full(units, -1, dtype=np.int32)
    names = [*CELLS, *map(part_name, range(parts))]
    for chunk in chunks:
        # If a unit occurs twice, its newest version is written last.
        rows = counted(chunk, names).sort_by("version")
        numbers, own = rows["number"].to_numpy(), rows["version"].to_numpy()
        newer = own >= versions[numbers]
        numbers, values = numbers[newer], parts_of(rows, parts)[newer]
        versions[numbers] = own[newer]
        for place in range(parts):
            there = ~np.isnan(values[:, place])
            found[numbers[there], place] = values[there, place]
    return found


def _segment(part: Feature, value: object) -> str:
    """Return the segment of a value; undeclared levels count as "other", as in the model."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not value:
        return "missing"
    declared = not isinstance(part, LevelsFeature) or value in part.rules.levels
    return str(value) if declared else OTHER


def logged(
    reader: Reader,
    now: Situation,
    *,
    segments: Sequence[str] = (),
    closing: bool = False,
    after_event: int = 0,
    at: datetime | None = None,
) -> Logged:
    """Return a campaign's data for inference: closed waves, and an aborted campaign's last wave.

    Parameters
    ----------
    reader, now
        The campaign's reader and its current state.
    segments
        The columns whose values are segments.
    closing
        Whether the next event closes the open wave. If so, the open wave is included, with the
        outcomes that closing adds.
    after_event
        Leave out outcomes up to this event; they belong to waves that will not be read.
    at
        The time of the analysis; now, if it is None.
    """
    counts = closing or (now.aborted and now.units[-1] > 0)
    waves = range(1, now.wave + 1 if counts else now.wave)
    used, at = tuple(wave for wave in waves if wave not in now.skipped), at or utc_now()
    until = now.sequence + int(closing)
    chunks = reader.outcome_chunks(after_event=after_event, until_event=until)
    known = Newest.of(chunks, now.assigned)
    if closing:
        return Logged(reader, now, known, used, at, (), tuple(segments))
    waiting = _waiting(reader, now, known, at)
    used = tuple(wave for wave in used if wave not in waiting)
    return Logged(reader, now, known, used, at, waiting, tuple(segments))


def _waiting(reader: Reader, now: Situation, known: Newest, at: datetime) -> tuple[int, ...]:
    """Count units as absent whose wait is over by now; return the waves that have others.

    The outcomes of such a wave are those of buyers alone, whom the others are not like. The last
    wave of an aborted campaign was never closed, so its units never count as absent.
    """
    gone = absent_since(reader, now, at)
    known.count_absent(gone)
    left = list(gone.waiting)
    if now.aborted and now.absent is not None:
        left += [(now.wave, event) for event in assigned_by(reader, now.wave)]
    return tuple(sorted({
        wave for wave, event in left if (known.versions[assigned_by(reader, wave)[event]] < 0).any()
    }))  # fmt: skip


def marks_of(names: Sequence[str]) -> Integers:
    """Return 52 bits of a hash of each name, as any database computes it; folds go by them."""
    made = draws(0, FOLDS_NAME, names, by="md5", lots=False).randomised
    return np.ldexp(made, 52).astype(np.int64)

"""A campaign's units as inference takes them, wave by wave and chunk by chunk.

The first action is the one that others are compared with, and outcomes are such that more is
better. Columns are those of the model, standardised by the first wave; a column that was constant
there is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.outcomes import Newest
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Reader, UnitChunk
from seqbatch.campaign.tables.assignments import Decided, widened
from seqbatch.campaign.tables.eligibility import Eligibility
from seqbatch.campaign.tables.encoder import Encoder
from seqbatch.campaign.tables.features.base import Feature
from seqbatch.campaign.tables.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.tables.features.date import DateFeature
from seqbatch.campaign.tables.features.numeric import NumericFeature
from seqbatch.campaign.tables.ids import id_columns
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference import Eligible, Lift, Mean, Rows
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.moments import Moments
from seqbatch.inference.partitions import Partition
from seqbatch.inference.summary import Segment

#: Rows of so many bytes are kept between passes; more than that are read and encoded again.
KEPT = 32 * 1024**2
#: So many units are handed over at once: what is computed of each takes more room than the unit.
PIECE = 16_384


@dataclass(frozen=True, eq=False)
class Columns:
    """The model's columns: those that varied in the first wave, and how they are standardised.

    Parameters
    ----------
    names
        Of the columns, the constant's first.
    places
        Where they are among the encoder's.
    mean, spread
        What is subtracted from the encoder's numbers, and by what they are divided.
    scales
        How the encoder itself had scaled a column of a file: what it subtracted, and divided by.
    """

    names: tuple[str, ...]
    places: Integers
    mean: Floats
    spread: Floats
    scales: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, encoder: Encoder, places: Integers, mean: Floats, spread: Floats) -> "Columns":
        """Return columns that are known by their places among the encoder's."""
        names = [encoder.names[place] for place in places]
        scales = _scales(encoder)
        return cls(
            names=("intercept", *names),
            places=places,
            mean=mean,
            spread=spread,
            scales=tuple(scales.get(name, (0.0, 1.0)) for name in names),
        )

    def standardised(self, encoded: Floats) -> Floats:
        """Return the columns with the constant first."""
        made = np.ones((len(encoded), 1 + len(self.places)))
        made[:, 1:] = (encoded[:, self.places] - self.mean) / self.spread
        return made

    def own_value(self, column: int, value: float) -> float:
        """Return a standardised number of a column as the file has it, the constant being 0."""
        mean, sd = self.scales[column - 1]
        own = mean + sd * float(self.mean[column - 1] + self.spread[column - 1] * value)
        # What is left of a 0 by rounding is a 0.
        return 0.0 if abs(own) < 1e-12 * abs(sd) * float(self.spread[column - 1]) else own


def _scales(encoder: Encoder) -> dict[str, tuple[float, float]]:
    """Return how the encoder scaled its columns of numbers and of days."""
    parts = encoder.parts.values()
    numbers = [part.number for part in parts if isinstance(part, NumericFeature)]
    numbers += [part.days for part in parts if isinstance(part, DateFeature)]
    known = [(one.name, one.frozen) for one in numbers]
    return {name: (frozen.mean, frozen.sd) for name, frozen in known if frozen is not None}


@dataclass(eq=False)
class Logged:
    """All that inference needs of a campaign.

    Parameters
    ----------
    reader
        Where units and outcomes are.
    now
        Where the campaign stands, what the first wave taught included.
    known
        The newest outcome of each unit, absent ones included.
    waves
        The waves that count.
    segments
        The columns whose values are segments.
    levels
        The numbers of each segment's values, as they are met.
    """

    reader: Reader
    now: Situation
    known: Newest
    waves: tuple[int, ...]
    segments: tuple[str, ...] = ()
    levels: dict[str, dict[str, int]] = field(default_factory=dict)
    _kept: dict[int, Rows] = field(default_factory=dict)
    _room: int = KEPT
    _clusters: dict[str, int] = field(default_factory=dict)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The numbers of all actions, the one that others are compared with first."""
        names = [action.name for action in self.now.actions]
        control = self.now.spec.control
        first = 0 if control is None else names.index(control)
        return (first, *(number for number in range(len(names)) if number != first))

    @cached_property
    def columns(self) -> Columns:
        """The model's columns, by a pass over the first wave that counts."""
        encoder = self.now.encoder()
        moments: Moments | None = None
        for chunk in self._chunks(self.waves[0]):
            piece = Moments.of(encoder.encode(unpack(chunk.given)))
            moments = piece if moments is None else moments.merge(piece)
        assert moments is not None
        spread = np.sqrt(moments.variance)
        # Sums of a column that is constant may differ from it in the last digits.
        places = np.flatnonzero(spread > 1e-9 * (1 + np.abs(moments.mean)))
        return Columns.of(encoder, places, moments.mean[places], spread[places])

    @property
    def each_wave(self) -> list["WaveRows"]:
        """The waves, each to be gone through as often as needed."""
        return [WaveRows(self, wave) for wave in self.waves]

    def _chunks(self, wave: int) -> Iterator[UnitChunk]:
        chunks = [extent.chunk for extent in self.reader.extents(wave=wave)]
        return self.reader.unit_chunks(given=True, chunks=chunks)

    def rows_of(self, wave: int) -> Iterator[Rows]:
        """Yield a wave's units in pieces."""
        for extent in self.reader.extents(wave=wave):
            rows = self._rows(extent.chunk)
            for start in range(0, rows.count, PIECE):
                yield rows.some(slice(start, start + PIECE))

    def _rows(self, number: int) -> Rows:
        """Return the units of a chunk; they are kept where there is room."""
        if number in self._kept:
            return self._kept[number]
        [chunk] = self.reader.unit_chunks(given=True, chunks=[number])
        made = self._made(chunk)
        size = made.features.nbytes + made.probabilities.nbytes + 16 * made.count
        if size <= self._room:
            self._room -= size
            self._kept[number] = made
        return made

    def _made(self, chunk: UnitChunk) -> Rows:
        now, given = self.now, unpack(chunk.given)
        decided = widened(Decided.of(unpack(chunk.decided)), len(now.actions))
        values = self.known.within(chunk.first, chunk.first + chunk.count)
        place_of = np.empty(len(self.order), dtype=np.int64)
        place_of[list(self.order)] = np.arange(len(self.order))
        sign, costs = now.spec.reward.sign, any(action.cost for action in now.actions)
        return Rows(
            features=self.columns.standardised(now.encoder().encode(given)),
            actions=place_of[decided.actions],
            probabilities=np.ascontiguousarray(decided.probabilities[:, list(self.order)]),
            outcomes=sign * now.rewards(values, decided.actions),
            clusters=self._cluster_numbers(given),
            groups={name: self._levels(name, given) for name in self.segments},
            eligible=self._eligible(given),
            before_costs=sign * values if costs else None,
        )

    @property
    def restricted(self) -> bool:
        """Whether some units may not get some actions."""
        return bool(self.now.spec.eligible)

    def partitions(self) -> list[Partition]:
        """Return what divides units into those that could get the actions of a question."""
        if not self.restricted:
            return []
        places = range(len(self.order))
        return [*(Eligible((a,)) for a in places), *(Eligible((0, a)) for a in places if a)]

    def segment(self, contrast: Contrast) -> Segment | None:
        """Return the units that a mean or a lift is asked about; None for all of them."""
        if not self.restricted:
            return None
        match contrast:
            case Mean(action):
                return Eligible((action,)), True
            case Lift(action):
                return Eligible((0, action)), True
        return None

    def _eligible(self, given: pa.Table) -> Bools | None:
        """Return who could get what, by the rules alone: whatever the policy wanted."""
        names = [self.now.actions[number].name for number in self.order]
        rules = Eligibility.of(self.now.spec, names)
        return None if rules is None else rules.mask(given)

    def _levels(self, segment: str, given: pa.Table) -> Integers:
        """Return the segments of some units as numbers: their places among `levels`."""
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
        """Return the clusters of some units as numbers, in the order in which they were met."""
        spec = self.now.spec
        if spec.cluster is None or not self.clustered:
            return None
        if spec.cluster in spec.unit:
            column = id_columns(given.column(0).to_pylist(), spec.unit)[spec.cluster]
        else:
            column = given.column(spec.cluster)
        met = self._clusters
        numbers = [met.setdefault(name, len(met)) for name in column.to_pylist()]
        return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WaveRows:
    """The units of one wave, which can be gone through as often as needed."""

    logged: Logged
    wave: int

    def __iter__(self) -> Iterator[Rows]:
        return self.logged.rows_of(self.wave)


def _segment(part: Feature, value: object) -> str:
    """Return the segment of a value: a text that is no level counts as other, as to the model."""
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
) -> Logged:
    """Return a campaign as inference takes it: its closed waves, and the last of an aborted one.

    Parameters
    ----------
    reader, now
        Where the campaign is, and where it stands.
    segments
        The columns whose values are segments.
    closing
        Whether the open wave is being closed by the next event, and counts with what that adds.
    after_event
        Outcomes up to this event are left out: those of waves that will not be gone through.
    """
    counts = closing or (now.aborted and now.units[-1] > 0)
    waves = range(1, now.wave + 1 if counts else now.wave)
    used = tuple(wave for wave in waves if wave not in now.skipped)
    until = now.sequence + int(closing)
    chunks = reader.outcome_chunks(after_event=after_event, until_event=until)
    known = Newest.of(chunks, now.assigned)
    return Logged(reader, now, known, used, tuple(segments))

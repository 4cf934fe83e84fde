"""A campaign's units as inference takes them, the plan for pooling waves, and too few events."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import inf

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.categorical import OTHER, LevelsFeature
from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.eligibility import Eligibility
from seqbatch.campaign.features.encoder import Encoder
from seqbatch.campaign.features.numeric import NumericFeature
from seqbatch.campaign.files.ids import id_columns
from seqbatch.campaign.record.outcomes import Newest
from seqbatch.campaign.record.situation import Situation, history
from seqbatch.campaign.record.store import Event, Reader
from seqbatch.campaign.record.unit_pieces import Piece, walk
from seqbatch.campaign.spec.spec import Action
from seqbatch.core.arrays import Bools, Floats, Integers
from seqbatch.inference import (
    Eligible,
    Lift,
    Mean,
    PlanOfShares,
    Rows,
    WaveSummary,
    plan_of_shares,
    share_when_assigned,
)
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.logged_units import Moments
from seqbatch.inference.scores import Evidence
from seqbatch.inference.summary import Partition, Segment

# ----------------------------------------------------------------------
# How much of the variance each wave of a campaign may contribute, by what was fixed in advance.
#
# As planned at creation, while nobody changed the plan. Where the calendar decides, and after an
# amendment, a wave's share is set by its units and their probabilities, as they were assigned: by
# anything but its outcomes. Sizes that were adopted from a proposal follow from outcomes, and the
# shares stay those of the sizes declared before: with them the waves' statistics are independent
# standard normals in fixed proportions, whatever the sizes became.


#: Where nothing keeps the probabilities of actions up, waves are planned as if this did.
LEAST = 0.001

#: A smaller share is that of rounding.
NOTHING = 1e-6


@dataclass(frozen=True)
class PlannedWave:
    """What was fixed of a wave before its outcomes.

    Parameters
    ----------
    share
        Its share of the variance by the plan at creation; None where that no longer holds.
    rest
        The sum of n/D over the waves that were still planned after it, D being that of one action.
    active
        The numbers of the actions that were given.
    """

    share: float | None
    rest: float
    active: tuple[int, ...]


def planned(then: Situation) -> PlanOfShares:
    """Return the shares of all waves by a campaign's sizes, policy, floor and randomised share."""
    actions = max(len(then.active), 2)
    uniform, floor = kept_up(then)
    return plan_of_shares(
        then.declared,
        actions=actions,
        randomised=uniform,
        floor=floor,
        policy=then.made_policy().sharing,
    )


def kept_up(then: Situation) -> tuple[float, float]:
    """Return the share of units assigned uniformly, and the floor for all others, in later waves.

    Where neither is declared, what inference plans with in their place.
    """
    actions = max(len(then.active), 2)
    uniform, floor = then.spec.randomised, then.floor
    uniform += (1 - uniform) * then.made_policy().explored
    if uniform / actions + (1 - uniform) * floor < LEAST:
        return 0.0, LEAST
    return uniform, floor


def planned_waves(events: Iterable[Event]) -> tuple[PlannedWave, ...]:
    """Return what was fixed of each wave so far, the open one included."""
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
    )


def shares_of(
    contrast: Contrast,
    summaries: Sequence[WaveSummary],
    waves: Sequence[PlannedWave],
    segment: Segment | None = None,
) -> tuple[float, ...]:
    """Return the share of each wave for a contrast; they add up to 1 when all waves are in.

    Parameters
    ----------
    contrast
        A mean or a lift.
    summaries, waves
        The waves that count, and what was fixed of each.
    segment
        The units that are asked about; None for all of them.
    """
    shares: list[float] = []
    for summary, wave in zip(summaries, waves, strict=True):
        if wave.share is not None:
            shares.append(wave.share)
            continue
        tally = summary.overall if segment is None else summary.segments.get(segment)
        if tally is None:
            shares.append(0.0)
            continue
        units = tally.units
        cost = float(tally.costs[summary.place(contrast)] / units)
        usable = np.isfinite(cost) and sum(shares) < 1 - NOTHING
        shares.append(
            share_when_assigned(
                spent=shares, units=units, cost=cost, planned_rest=wave.rest / contrast.arms
            )
            if usable
            else 0.0
        )
    return tuple(shares)


def information(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the fraction of the information that is in after each wave, at most 1."""
    return tuple(min(total, 1.0) for total in accumulate(shares))


# ----------------------------------------------------------------------
# A campaign's units as inference takes them, wave by wave and chunk by chunk.
#
# The first action is the one that others are compared with. Outcomes have the reward's own sign in
# findings; for looks, whose sums are kept in the store, more is better. Columns are those of the
# model, standardised by the first wave; a column that was constant there is left out.


#: Rows of so many bytes are kept between passes; more than that are read and encoded again.
KEPT = 32 * 1024**2
#: So many units are handed over at once: what is computed of each takes more room than the unit.
PIECE = 16_384


@dataclass(frozen=True, eq=False)
class ModelColumns:
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
    def of(cls, encoder: Encoder, places: Integers, mean: Floats, spread: Floats) -> "ModelColumns":
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
    sign
        What outcomes are multiplied by: 1 for the reward's own sign.
    levels
        The numbers of each segment's values, as they are met.
    """

    reader: Reader
    now: Situation
    known: Newest
    waves: tuple[int, ...]
    segments: tuple[str, ...] = ()
    sign: float = 1.0
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
    def columns(self) -> ModelColumns:
        """The model's columns, by a pass over the first wave that counts."""
        encoder = self.now.encoder()
        moments: Moments | None = None
        for piece in walk(self.reader, wave=self.waves[0], given=True):
            part = Moments.of(encoder.encode(piece.given()))
            moments = part if moments is None else moments.merge(part)
        assert moments is not None
        spread = np.sqrt(moments.variance)
        # Sums of a column that is constant may differ from it in the last digits.
        places = np.flatnonzero(spread > 1e-9 * (1 + np.abs(moments.mean)))
        return ModelColumns.of(encoder, places, moments.mean[places], spread[places])

    @property
    def each_wave(self) -> list["WaveRows"]:
        """The waves, each to be gone through as often as needed."""
        return [WaveRows(self, wave) for wave in self.waves]

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
        [piece] = walk(self.reader, chunks=[number], given=True)
        made = self._made(piece)
        size = made.features.nbytes + made.probabilities.nbytes + 16 * made.count
        if size <= self._room:
            self._room -= size
            self._kept[number] = made
        return made

    def _made(self, piece: Piece) -> Rows:
        now, given = self.now, piece.given()
        decided = piece.decided(now)
        values = self.known.within(piece.chunk.first, piece.chunk.first + piece.chunk.count)
        place_of = np.empty(len(self.order), dtype=np.int64)
        place_of[list(self.order)] = np.arange(len(self.order))
        sign, costs = self.sign, any(action.cost for action in now.actions)
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
        It is for a look then, and more is better.
    after_event
        Outcomes up to this event are left out: those of waves that will not be gone through.
    """
    counts = closing or (now.aborted and now.units[-1] > 0)
    waves = range(1, now.wave + 1 if counts else now.wave)
    used = tuple(wave for wave in waves if wave not in now.skipped)
    until = now.sequence + int(closing)
    chunks = reader.outcome_chunks(after_event=after_event, until_event=until)
    known = Newest.of(chunks, now.assigned)
    sign = now.spec.reward.sign if closing else 1.0
    return Logged(reader, now, known, used, tuple(segments), sign)


# ----------------------------------------------------------------------
# Whether enough events can have come to tell what an action brings from what it costs.
#
# A cost is known to the last digit, while what makes up for it may be a few sales. Before these
# have come, an action that pays for itself looks like a sure loss: its estimate is short by the
# cost, and waves with hardly an event show hardly any spread. What counts are the events that
# there would be by now if the action just paid for itself, not those there are: an action that
# brings nothing where 20 sales were needed is a loss. Actions that cost the same have no such
# trouble.
#
# The usual outcome is taken to be the lowest or the highest there is: sums do not tell of another.
# With sales and refunds it is neither, outcomes seem not to be rare, and nothing is held back.


#: With fewer events at break-even, rules for stopping may err several times too often, and with
#: more they find what harms later or never: docs/few-events.md.
ENOUGH_EVENTS = 20
#: The textbooks' condition for the normal interval of a proportion, for events and for the others.
ENOUGH_FOR_A_MEAN = 10
#: Where so large a share of outcomes would be events, they are not rare: any number will do.
OFTEN = 0.2
#: Whole numbers of events may be missed by rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class FewEvents:
    """An action, and how many events it has, or would have by now at break-even: too few."""

    action: str
    events: int

    def __str__(self) -> str:
        return f"{self.events} of {self.action}"


def few_events(
    evidence: Evidence,
    actions: Sequence[Action],
    order: Sequence[int],
    place: int,
    *,
    enough: int = ENOUGH_EVENTS,
    less: bool = False,
) -> FewEvents | None:
    """Return which of two compared actions has too few events, None where there are enough.

    What makes up for a difference in costs are gains of the dearer action where most outcomes are
    the lowest there is (sales), and losses that the cheaper one has and the dearer one has not
    where most are the highest (complaints, of which fewer are better).

    Parameters
    ----------
    evidence
        The sums over all waves so far.
    actions
        All actions, with their costs.
    order
        Their numbers, in the order of the evidence.
    place
        Which of these is compared with the first.
    enough
        How many events are enough.
    less
        Whether a lower outcome is better: then costs are part of it with the other sign, and gains
        are outcomes below the usual one.
    """
    costs = _costs(actions, order, less=less)
    cheaper, dearer = sorted((0, place), key=lambda one: actions[order[one]].cost)
    if costs[cheaper] == costs[dearer]:
        return None
    worst, best = evidence.lowest, evidence.highest
    if less:
        worst, best = best, worst
    gains = _expected(evidence, costs, dearer, cheaper, usual=worst)
    losses = _expected(evidence, costs, cheaper, dearer, usual=best)
    events, fewest = min((gains, dearer), (losses, cheaper))
    if events + ROUNDING >= enough:
        return None
    return FewEvents(actions[order[fewest]].name, int(events + ROUNDING))


def few_events_of_one(
    evidence: Evidence,
    actions: Sequence[Action],
    order: Sequence[int],
    place: int,
    *,
    less: bool = False,
) -> FewEvents | None:
    """Return how many events an action has, where too few for the interval of its mean, or None.

    Events are outcomes other than the usual one, be that the lowest there is or the highest.
    """
    costs = _costs(actions, order, less=less)
    events = min(
        _came(evidence, costs[place], place, one) for one in (evidence.lowest, evidence.highest)
    )
    if events + ROUNDING >= ENOUGH_FOR_A_MEAN:
        return None
    return FewEvents(actions[order[place]].name, int(events + ROUNDING))


def _costs(actions: Sequence[Action], order: Sequence[int], *, less: bool) -> list[float]:
    """Return what is added to outcomes after costs to have them before costs."""
    return [-actions[number].cost if less else actions[number].cost for number in order]


def _came(evidence: Evidence, cost: float, place: int, usual: float) -> float:
    """Return how many events came: (sum d)^2 / sum d^2, which is just that if all are alike."""
    total, squares = _distances(evidence, np.array(cost - usual))
    return float(total[place] ** 2 / squares[place]) if squares[place] > 0 else 0.0


def _expected(
    evidence: Evidence, costs: Sequence[float], place: int, other: int, *, usual: float
) -> float:
    """Return how many events an action would have at break-even: if both brought the same.

    All that came of both actions is divided between them so that `place` has as much more a unit
    as the costs differ by. It is counted in events, each worth sum d^2 / sum d, where d is how far
    an outcome, before costs, is from the usual one: of events that are all alike just that, and
    more where a few large ones make up most of the sum.
    """
    away, worth = _away(evidence, costs, usual)
    count, counts = int(evidence.statistics.count[place]), evidence.statistics.count
    more = abs(costs[place] - costs[other])
    both = int(counts[place] + counts[other])
    least = max((away[place] + away[other] - count * more) / max(both, 1), 0.0)
    share = (least + more) / worth
    return count * share if share < OFTEN else inf


def _away(
    evidence: Evidence, costs: Sequence[float], usual: float
) -> tuple[Sequence[float], float]:
    """Return how far each action's outcomes are from the usual one in all, and an event's worth."""
    total, squares = _distances(evidence, np.array(costs) - usual)
    away = np.abs(total)
    return away.tolist(), float(squares.sum() / away.sum())


def _distances(evidence: Evidence, off: Floats) -> tuple[Floats, Floats]:
    """Return sums of d and d^2 of each action, d an outcome after costs, moved by `off`."""
    sums = evidence.statistics
    total = sums.moment[:, 0] + sums.count * off
    squares = sums.squares + 2 * off * sums.moment[:, 0] + sums.count * off**2
    return total, squares

"""Encode units: turn their columns into the model's feature vectors."""

import datetime
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.features.base import Feature
from seqbatch.campaign.features.boolean import BooleanFeature
from seqbatch.campaign.features.categorical import CategoricalFeature, HashedFeature, LevelsFeature
from seqbatch.campaign.features.date import DateFeature
from seqbatch.campaign.features.eligibility import BesideColumn, Eligibility
from seqbatch.campaign.features.learned_scales import LearnedFeatures, learn_number
from seqbatch.campaign.features.numeric import NumericFeature, ScaledNumber
from seqbatch.campaign.files.column_values import Problems, Reason, texts
from seqbatch.campaign.files.number_format import TOO_LARGE_ENCODED
from seqbatch.campaign.spec.features import Features, Hashed
from seqbatch.campaign.spec.input_limits import LARGEST_ENCODED, LARGEST_NUMBER
from seqbatch.campaign.spec.spec import Action, Spec
from seqbatch.core import kernels
from seqbatch.core.arrays import Bools, Floats
from seqbatch.core.exact_sums import Vectors

# ----------------------------------------------------------------------
# Encode units in the same way at assignment, when a wave closes, and in a replay.
#
# The model's columns have readable names: ``age``, ``zip=Urban``, ``age*zip=Urban``, and ``city#3``
# for a cell of a hashed category. Under a shared model ``price*age`` is the product of an action's
# feature and a unit's feature.


#: The number of first-wave values sorted at once: as many columns as fit into 256 MB.
AT_ONCE = 1 << 25
#: The rank of a model with more columns than this is not computed.
LARGEST_RANK = 600
#: The number of values of a feature drawn for each that is used: most may be levels without units.
MANY = 10


@dataclass(frozen=True)
class Encoder:
    """Turns units into feature vectors.

    Parameters
    ----------
    unit, unit_columns
        The name of the ids, and the columns of a file that they consist of.
    cluster
        The column that groups units into clusters, or None; stored, but not part of a vector.
    features
        The features that the spec declares.
    start
        The day from which dates are counted back.
    other
        Whether an unseen category level counts as `other` instead of being refused, unless the
        category's own rules say otherwise.
    learned
        What was learned from the first wave; None until it closes. Until then features that
        learn are 0: the first wave is assigned at random, and nothing depends on them.
    actions
        Each action's own features under a shared model; empty under one model per action.
    beside
        Columns stored for rules and strata; not part of a vector.
    eligibility
        Which units may get which action; None if there are no rules.
    """

    unit: str
    features: Features
    start: datetime.date | None
    other: bool
    learned: LearnedFeatures | None
    actions: tuple[Mapping[str, float], ...] = ()
    unit_columns: tuple[str, ...] = ()
    cluster: str | None = None
    beside: tuple[BesideColumn, ...] = ()
    eligibility: Eligibility | None = None

    @classmethod
    def of(
        cls,
        spec: Spec,
        *,
        actions: Sequence[Action],
        learned: LearnedFeatures | None,
        given: Sequence[str] | None = None,
    ) -> "Encoder":
        """Return the encoder of a spec for these actions; `given` names those still assigned."""
        names = [action.name for action in actions] if given is None else given
        traits = tuple(action.features for action in actions)
        return cls(
            unit=spec.id_name,
            unit_columns=spec.unit,
            cluster=None if spec.cluster in spec.unit else spec.cluster,
            features=spec.features,
            start=spec.start,
            other=spec.on_unseen_category == "other",
            learned=learned,
            actions=traits if spec.model == "shared" else (),
            beside=tuple(BesideColumn(name, kind) for name, kind in spec.beside.items()),
            eligibility=Eligibility.of(spec, names),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns of units: the ids, and the inputs of the model."""
        return (self.unit, *self.features.columns)

    @cached_property
    def parts(self) -> dict[str, Feature]:
        """The features, by the column that each is made from."""
        made: dict[str, Feature] = {}
        numbers = {} if self.learned is None else self.learned.numbers
        for name, numeric in self.features.numeric.items():
            made[name] = NumericFeature(name, numeric, numbers.get(name))
        for name, date in self.features.date.items():
            made[name] = DateFeature(name, date, self.start, numbers.get(name))
        for name, missing in self.features.boolean.items():
            made[name] = BooleanFeature(name, missing)
        for name, kind in self.features.categorical.items():
            if isinstance(kind, Hashed):
                made[name] = HashedFeature(name, kind)
                continue
            other = self.other if kind.other is None else kind.other
            rare = None if self.learned is None else self.learned.rare.get(name, ())
            made[name] = LevelsFeature(name, kind, other, rare)
        return made

    @cached_property
    def _widths(self) -> dict[str, int]:
        return {name: len(part.names) for name, part in self.parts.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        parts = {name: part.names for name, part in self.parts.items()}
        base = [name for names in parts.values() for name in names]
        crossed = [
            f"{left}*{right}"
            for one, two in self.features.interactions
            for left in parts[one]
            for right in parts[two]
        ]
        own = (*(["intercept"] if self.features.intercept else []), *base, *crossed)
        if not self.actions:
            return own
        return (*own, *(f"{trait}*{name}" for trait in self.actions[0] for name in own))

    @property
    def own(self) -> int:
        """The length of the unit's own part of a vector."""
        widths = self._widths
        crossed = sum(widths[one] * widths[two] for one, two in self.features.interactions)
        return self.features.intercept + sum(widths.values()) + crossed

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return self.own * (1 + len(self.actions[0])) if self.actions else self.own

    def prepared(self, batch: Any, start: int, problems: Problems) -> tuple[pa.Array, pa.Table]:
        """Check a piece of a file; return its ids and the columns to store."""
        units, wrong = texts(batch.column(self.unit))
        problems.add(start, self.unit, wrong)
        kept = [units]
        for name, part in self.parts.items():
            values, wrong = part.read(batch.column(name))
            problems.add(start, name, wrong)
            kept.append(values)
        given = pa.table(kept, names=list(self.columns))
        self.check_sizes(given, start, problems)
        return units, given

    def check_sizes(self, given: pa.Table, start: int, problems: Problems) -> None:
        """Find rows whose numbers are too large for the model after scaling and interactions.

        One such row would enter the sums of every later estimate and make them all impossible.
        Until the first wave closes, features with a learned scale are bounded by the file limits.
        """
        # A number that overflows is too large.
        with np.errstate(over="ignore", invalid="ignore"):
            if self._all_fit(given):
                return
            sizes = {name: part.sizes(given.column(name)) for name, part in self.parts.items()}
            crossed = {
                f"{one}*{two}": sizes[one] * sizes[two] for one, two in self.features.interactions
            }
            for name, size in (sizes | crossed).items():
                most = size * max(self._trait, 1.0)
                wrong = np.flatnonzero(~(most < LARGEST_ENCODED)).tolist()
                reasons: dict[int, str] = {
                    row: Reason(TOO_LARGE_ENCODED, f"; received {most[row]:g}", "out-of-range")
                    for row in wrong
                }
                problems.add(start, name, reasons)

    @property
    def _trait(self) -> float:
        """The largest absolute value among the actions' own features."""
        return max((abs(value) for own in self.actions for value in own.values()), default=0.0)

    def _all_fit(self, given: pa.Table) -> bool:
        """Return whether no number can be too large, given the largest one of each column."""
        most = {name: part.largest(given.column(name)) for name, part in self.parts.items()}
        crossed = [most[one] * most[two] for one, two in self.features.interactions]
        return all(
            size * max(self._trait, 1.0) < LARGEST_ENCODED for size in (*most.values(), *crossed)
        )

    def encode(self, given: pa.Table) -> Floats:
        """Return the unit's own part of the vectors, shape (n, own)."""
        out = np.zeros((given.num_rows, self.own))
        for name, place in self.places().items():
            self.parts[name].encode(given.column(name), out[:, place])
        self._complete(out)
        return out

    def places(self) -> dict[str, slice]:
        """Return the positions of each feature's columns."""
        place, places = int(self.features.intercept), {}
        for name, width in self._widths.items():
            places[name] = slice(place, place + width)
            place += width
        return places

    def _complete(self, out: Floats) -> None:
        """Add the intercept and the interactions of the encoded features."""
        if self.features.intercept:
            out[:, 0] = 1.0
        at, count = self.places(), len(out)
        place = self.features.intercept + sum(self._widths.values())
        for one, two in self.features.interactions:
            size = self._widths[one] * self._widths[two]
            product = out[:, at[one], None] * out[:, None, at[two]]
            out[:, place : place + size] = product.reshape(count, size)
            place += size

    def clipped(self, given: pa.Table) -> dict[str, int]:
        """Return the number of clipped values of each column that has any."""
        counts = {name: part.clipped(given.column(name)) for name, part in self.parts.items()}
        return {name: count for name, count in counts.items() if count}

    def directions(self) -> tuple[int, int] | None:
        """Return how many columns are ever used, and the largest rank that data could give them.

        The rank is lower if some columns always sum to another, as all levels of a category sum to
        the intercept. It is found from random rows, enough of them to contain every pair of levels.
        None for a model with very many columns.
        """
        gram = self.possible(np.ones(self.dim, dtype=np.bool_))
        if gram is None:
            return None
        used = int(np.diag(gram).astype(bool).sum())
        return used, int(np.linalg.matrix_rank(gram, hermitian=True))

    def possible(self, seen: Bools) -> Floats | None:
        """Return the sums of products over random rows that units could have, scaled to size 1.

        Parameters
        ----------
        seen
            Which columns may differ from 0: a level that no unit has is in no row.
        """
        if self.dim > LARGEST_RANK:
            return None
        rng = np.random.default_rng(0)
        own: Bools = np.logical_or.reduce(seen.reshape(-1, self.own), axis=0)
        gram = np.zeros((self.own, self.own))
        for _ in range(20):
            out = np.zeros((self.own, self.own))
            for name, place in self.places().items():
                # Each feature by itself: together hardly any row might be left.
                if own[place].all():
                    out[:, place] = self.parts[name].possible(rng, len(out))
                    continue
                block = self.parts[name].possible(rng, MANY * len(out))
                fit = np.flatnonzero(~block[:, ~own[place]].any(axis=1))
                out[:, place] = block[rng.choice(fit, len(out))] if len(fit) else 0.0
            self._complete(out)
            out = out[~out[:, ~own].any(axis=1)]
            gram += out.T @ out
        traits = np.array([[1.0, *own.values()] for own in self.actions] or [[1.0]])
        gram = np.kron(traits.T @ traits, gram)
        # A column filled with a mean of a billion must not hide one of zeros and ones.
        size = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
        scaled: Floats = gram / np.outer(size, size)
        return scaled

    def contexts(self, own: Floats, active: tuple[int, ...]) -> Floats:
        """Return a policy's input: the vectors unchanged, or one for each action."""
        if not self.actions:
            return own
        traits = np.array([list(self.actions[action].values()) for action in active])
        crossed = traits[None, :, :, None] * own[:, None, None, :]
        shape = (len(own), len(active), -1)
        alike = np.broadcast_to(own[:, None, :], (len(own), len(active), own.shape[1]))
        return np.concatenate([alike, crossed.reshape(shape)], axis=2)


def learn(
    encoder: Encoder, pieces: Callable[[], Iterable[pa.Table]], *, units: int
) -> LearnedFeatures:
    """Learn scales, bounds and rare levels from the units of the first wave.

    Parameters
    ----------
    encoder
        The encoder of the first wave.
    pieces
        Each call starts a new pass over the units.
    units
        The number of units.
    """
    parts = encoder.parts
    numbers = [
        part
        for name in encoder.features.learning
        if isinstance(part := parts[name], NumericFeature | DateFeature)
    ]
    found = {}
    step = max(AT_ONCE // max(units, 1), 1)
    for start in range(0, len(numbers), step):
        some = numbers[start : start + step]
        values = np.full((len(some), units), np.nan)
        row = 0
        for piece in pieces():
            for place, part in enumerate(some):
                values[place, row : row + piece.num_rows] = part.values(piece.column(part.name))
            row += piece.num_rows
        for part, own in zip(some, values, strict=True):
            found[part.name] = learn_number(own, part.rules)
    return LearnedFeatures(found, _learn_rare(encoder, pieces))


def _learn_rare(
    encoder: Encoder, pieces: Callable[[], Iterable[pa.Table]]
) -> dict[str, tuple[str, ...]]:
    """Return the levels that are too rare in the first wave."""
    counting = [
        part
        for name in encoder.features.learning
        if isinstance(part := encoder.parts[name], LevelsFeature)
    ]
    counts = {part.name: np.zeros(len(part.levels), dtype=np.int64) for part in counting}
    for piece in pieces() if counting else ():
        for part in counting:
            counts[part.name] += part.counts(piece.column(part.name))
    return {part.name: part.too_rare(counts[part.name]) for part in counting}


# ----------------------------------------------------------------------
# Vectors for sums: numbers are kept apart from categories, which need no multiplication.


class Room(threading.local):
    """Memory that each thread reuses: allocating it takes longer than filling it."""

    _kept: Floats = np.empty(0)

    def floats(self, rows: int, count: int) -> Floats:
        """Return an uninitialized array, which shares its memory with the thread's last one."""
        if self._kept.size < rows * count:
            self._kept = np.empty(rows * count)
        return self._kept[: rows * count].reshape(rows, count)


def vectors(encoder: Encoder, given: pa.Table, room: Room) -> Vectors:
    """Return the unit's own part of the vectors, equal to :meth:`Encoder.encode`.

    The numbers use the memory of `room` until the same thread asks for more of it.
    """
    if encoder.features.interactions:
        return Vectors.of(encoder.encode(given))
    places, parts, count = encoder.places(), encoder.parts, given.num_rows
    marked = {
        name: part
        for name, part in parts.items()
        if isinstance(part, CategoricalFeature) and part.known
    }
    intercept = int(encoder.features.intercept)
    marks = np.empty((intercept + len(marked), count), dtype=np.int64)
    marks[:intercept] = 0
    for row, (name, part) in enumerate(marked.items(), start=intercept):
        part.write_places(given.column(name), places[name].start, marks[row])
    alone = {
        name: part
        for name, part in parts.items()
        if isinstance(part, NumericFeature) and part.number.scaling is not None
    }
    others = {
        name: part
        for name, part in parts.items()
        if name not in alone and not isinstance(part, CategoricalFeature)
    }
    own = [range(*places[name].indices(encoder.dim)) for name in (*alone, *others)]
    columns = np.array([column for each in own for column in each], dtype=np.int64)
    numbers = _Numbers(
        values=[part.values(given.column(name)) for name, part in alone.items()],
        rules=np.array([part.number.scaling for part in alone.values()]).reshape(-1, 5),
        others=[(len(part.names), part, given.column(name)) for name, part in others.items()],
        room=room,
    )
    return Vectors(numbers.some, columns, marks)


@dataclass(frozen=True)
class _Numbers:
    """The numeric columns of the model: first those that are only scaled, then the others.

    Parameters
    ----------
    values, rules
        Numbers that are only scaled, one array per column, and their scalings.
    others
        The number of columns of each other feature, and its input.
    room
        The memory for the numbers.
    """

    values: list[Floats]
    rules: Floats
    others: list[tuple[int, Feature, Any]]
    room: Room

    def some(self, some: slice) -> Floats:
        """Return the numbers of a range of units."""
        count, first = some.stop - some.start, len(self.values)
        rows = self.room.floats(first + sum(width for width, *_ in self.others), count)
        if first:
            # In one call: threads that take turns in Python wait for each other at every call.
            np.concatenate([each[some] for each in self.values], out=rows[:first].reshape(-1))
            kernels.texts.scale_columns(rows[:first], self.rules)
        for width, part, kept in self.others:
            own = rows[first : first + width]
            own[:] = 0.0
            part.encode(kept.slice(some.start, count), own.T)
            first += width
        return rows


# ----------------------------------------------------------------------
# Bounds on the model's numbers, from each feature's declared and learned settings.


#: The largest number of a column, and whether its numbers are whole.
Size = tuple[float, bool]
INDICATOR: Size = (1.0, True)


def largest(encoder: Encoder) -> list[Size]:
    """Return the largest size of each column of the model, and whether its numbers are whole."""
    parts = {name: _of(part) for name, part in encoder.parts.items()}
    own = [INDICATOR] if encoder.features.intercept else []
    own += [size for sizes in parts.values() for size in sizes]
    for one, two in encoder.features.interactions:
        own += [(a * b, w and v) for a, w in parts[one] for b, v in parts[two]]
    traits = [
        max(abs(action[name]) for action in encoder.actions)
        for name in (encoder.actions[0] if encoder.actions else ())
    ]
    return own + [(trait * size, False) for trait in traits for size, _ in own]


def _of(part: Feature) -> list[Size]:
    """Return the sizes of one feature's columns."""
    if isinstance(part, NumericFeature):
        return _scaled(part.number)
    if isinstance(part, DateFeature):
        blocks = [
            _scaled(part.days) if each == "days" else [INDICATOR] * len(part.names_of(each))
            for each in part.rules.parts
        ]
        return [size for block in blocks for size in block]
    return [INDICATOR] * len(part.names)


def _scaled(number: ScaledNumber) -> list[Size]:
    """Return the size of a scaled number, and of its indicator of missing values."""
    frozen, more = number.frozen, [INDICATOR] * (len(number.names) - 1)
    if frozen is None or frozen.sd <= 0:
        return [(0.0, False), *more]
    low = -LARGEST_NUMBER if frozen.low is None else frozen.low
    high = LARGEST_NUMBER if frozen.high is None else frozen.high
    sizes = [abs((end - frozen.mean) / frozen.sd) for end in (low, high, frozen.fill)]
    return [(max(sizes), False), *more]

"""A unit's columns to the numbers of the model, the same at assignment, at close and in a replay.

Columns of the model have names that a person can read: ``age``, ``zip=Urban``, ``age*zip=Urban``,
``city#3`` for the cell of a hashed category. Under a shared model ``price*age`` is the product of
an action's feature and a unit's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from seqbatch.campaign.design.limits import LARGEST_ENCODED
from seqbatch.campaign.design.spec import Action, Features, Hashed, Levels, Spec
from seqbatch.campaign.tables.columns import MISSING, Problems, categories, numbers, texts
from seqbatch.core.arrays import Floats, Integers

#: Mean and standard deviation of each numeric feature whose scaling is learned.
Learned = Mapping[str, tuple[float, float]]
OTHER = "other"


@dataclass(frozen=True)
class Encoder:
    """Turns what was given into vectors.

    Parameters
    ----------
    unit, unit_columns
        What the ids are called, and the columns of a file that they are made of.
    cluster
        The column whose units belong together, None for none; kept, and no part of a vector.
    features
        What the spec says of the columns.
    other
        Whether a category never seen is counted as `other` instead of being refused.
    learned
        Scaling learned from the first wave; None before. Until then such columns are 0: the first
        wave is assigned at random, and nothing depends on them.
    actions
        Each action's own features under a shared model; empty under one model per action.
    """

    unit: str
    features: Features
    other: bool
    learned: Learned | None
    actions: tuple[Mapping[str, float], ...] = ()
    unit_columns: tuple[str, ...] = ()
    cluster: str | None = None

    @classmethod
    def of(cls, spec: Spec, *, actions: Sequence[Action], learned: Learned | None) -> "Encoder":
        """Return the encoder of a spec, for these actions."""
        traits = tuple(action.features for action in actions)
        return cls(
            unit=spec.id_name,
            unit_columns=spec.unit,
            cluster=None if spec.cluster in spec.unit else spec.cluster,
            features=spec.features,
            other=spec.on_unseen_category == "other",
            learned=learned,
            actions=traits if spec.model == "shared" else (),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are kept of units: the ids, and what the model is made of."""
        return (self.unit, *self.features.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model."""
        parts = self._parts()
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
    def dim(self) -> int:
        """How many numbers a vector has, counted without naming them."""
        widths = dict.fromkeys(self.features.numeric, 1)
        for name, kind in self.features.categorical.items():
            widths[name] = kind.hash if isinstance(kind, Hashed) else len(self._levels(kind))
        crossed = sum(widths[one] * widths[two] for one, two in self.features.interactions)
        own = self.features.intercept + sum(widths.values()) + crossed
        return own * (1 + len(self.actions[0])) if self.actions else own

    def prepared(self, batch: Any, start: int, problems: Problems) -> tuple[list[str], pa.Table]:
        """Check a piece of a file; return its ids and what is to be kept of it."""
        units, wrong = texts(batch.column(self.unit))
        problems.add(start, self.unit, wrong)
        kept = [pa.array(units, type=pa.string())]
        for name in self.features.numeric:
            values, wrong = numbers(batch.column(name))
            problems.add(start, name, wrong)
            kept.append(pa.array(values))
        for name in self.features.categorical:
            encoded, wrong = categories(batch.column(name))
            if self.other:
                # What is missing counts as `other`; a column of the wrong type is still refused.
                wrong = {row: reason for row, reason in wrong.items() if reason != MISSING}
            problems.add(start, name, wrong)
            kept.append(encoded)
            if not self.other:
                problems.add(start, name, self._unseen(name, encoded))
        given = pa.table(kept, names=list(self.columns))
        self.check_sizes(given, start, problems)
        return units, given

    def check_sizes(self, given: pa.Table, start: int, problems: Problems) -> None:
        """Find the rows whose numbers are too large for the model, as it scales and crosses them.

        One such row would be in the sums of every later estimate, and none could be made. What is
        scaled by the first wave is, until that is closed, bounded by what may be in a file.
        """
        # What is too large to be a number is too large.
        with np.errstate(over="ignore", invalid="ignore"):
            ones = np.ones(given.num_rows)
            sizes = {name: self._size(name, given) for name in self.features.numeric}
            crossed = {
                f"{one}*{two}": sizes.get(one, ones) * sizes.get(two, ones)
                for one, two in self.features.interactions
            }
            trait = max((abs(value) for own in self.actions for value in own.values()), default=0.0)
            for name, size in (sizes | crossed).items():
                most = size * max(trait, 1.0)
                wrong = np.flatnonzero(~(most < LARGEST_ENCODED)).tolist()
                rule = f"must be below {LARGEST_ENCODED:g} in size as the model takes it"
                reasons = {row: f"{rule}; received {most[row]:g}" for row in wrong}
                problems.add(start, name, reasons)

    def _size(self, name: str, given: pa.Table) -> Floats:
        """Return how large a number of each row is to the model; its categories are 0 or 1."""
        values = given.column(name).to_numpy()
        scaled = np.zeros(len(values))
        self._scale(name, values, scaled)
        return np.abs(scaled)

    def encode(self, given: pa.Table) -> Floats:
        """Return the unit's own part of the vectors, shape (n, own)."""
        count = given.num_rows
        parts = self._parts()
        width = self.features.intercept + sum(len(names) for names in parts.values())
        crossed = [len(parts[a]) * len(parts[b]) for a, b in self.features.interactions]
        out = np.zeros((count, width + sum(crossed)))
        place = 0
        if self.features.intercept:
            out[:, 0], place = 1.0, 1
        at = {}
        for name in self.features.numeric:
            self._scale(name, given.column(name).to_numpy(), out[:, place])
            at[name] = slice(place, place + 1)
            place += 1
        rows = np.arange(count)
        for name in self.features.categorical:
            codes = self._codes(name, given.column(name).combine_chunks())
            out[rows, place + codes] = 1.0
            at[name] = slice(place, place + len(parts[name]))
            place += len(parts[name])
        for (one, two), size in zip(self.features.interactions, crossed, strict=True):
            product = out[:, at[one], None] * out[:, None, at[two]]
            out[:, place : place + size] = product.reshape(count, size)
            place += size
        return out

    def contexts(self, own: Floats, active: tuple[int, ...]) -> Floats:
        """Return what a policy takes: the vectors as they are, or one for each action."""
        if not self.actions:
            return own
        traits = np.array([list(self.actions[action].values()) for action in active])
        crossed = traits[None, :, :, None] * own[:, None, None, :]
        shape = (len(own), len(active), -1)
        alike = np.broadcast_to(own[:, None, :], (len(own), len(active), own.shape[1]))
        return np.concatenate([alike, crossed.reshape(shape)], axis=2)

    def _parts(self) -> dict[str, list[str]]:
        """Return the model's columns that each feature becomes."""
        parts = {name: [name] for name in self.features.numeric}
        for name, kind in self.features.categorical.items():
            if isinstance(kind, Hashed):
                parts[name] = [f"{name}#{cell}" for cell in range(kind.hash)]
            else:
                parts[name] = [f"{name}={level}" for level in self._levels(kind)]
        return parts

    def _levels(self, kind: Levels) -> tuple[str, ...]:
        """Return the levels of a category, with that for what was never seen where there is one."""
        return (*kind.levels, OTHER) if self.other and OTHER not in kind.levels else kind.levels

    def _scale(self, name: str, values: Floats, out: Floats) -> None:
        kind = self.features.numeric[name]
        if kind == "raw":
            out[:] = values
        elif kind != "learn":
            out[:] = (values - kind.mean) / kind.sd
        elif self.learned is not None:
            mean, deviation = self.learned[name]
            # A column that was constant in the first wave has no scale; it says nothing.
            out[:] = (values - mean) / deviation if deviation > 0 else 0.0

    def _codes(self, name: str, column: Any) -> Integers:
        """Return each row's place among the columns of a category."""
        kind = self.features.categorical[name]
        levels = column.dictionary.to_pylist()
        if isinstance(kind, Hashed):
            table = [cell(name, level, kind.hash) for level in levels]
            missing = cell(name, "", kind.hash)
        else:
            known = {level: place for place, level in enumerate(kind.levels)}
            missing = known.get(OTHER, len(kind.levels))
            table = [known.get(level, missing) for level in levels]
        codes = np.array([*table, missing], dtype=np.int64)
        places = column.indices.fill_null(len(table)).to_numpy(zero_copy_only=False)
        chosen: Integers = np.take(codes, places)
        return chosen

    def _unseen(self, name: str, encoded: Any) -> dict[int, str]:
        kind = self.features.categorical[name]
        if isinstance(kind, Hashed):
            return {}
        known = set(kind.levels)
        strange = {
            place: level
            for place, level in enumerate(encoded.dictionary.to_pylist())
            if level not in known and level
        }
        if not strange:
            return {}
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(np.isin(places, list(strange)))
        shown = ", ".join(kind.levels[:8]) + (", ..." if len(kind.levels) > 8 else "")
        return {
            int(r): f"must be one of {shown}; received {strange[int(places[r])][:60]!r}"
            for r in rows
        }


def cell(name: str, level: str, width: int) -> int:
    """Return the cell that a level of a hashed category falls into."""
    made = blake2b(f"{name}\n{level}".encode(), digest_size=8).digest()
    return int.from_bytes(made, "little") % width


def learn_scaling(encoder: Encoder, pieces: Iterable[pa.Table]) -> dict[str, tuple[float, float]]:
    """Return mean and population standard deviation of the columns whose scaling is learned.

    Pieces are taken one at a time, each merged into what the ones before gave.
    """
    wanted = [name for name, kind in encoder.features.numeric.items() if kind == "learn"]
    count, mean, squares = 0, np.zeros(len(wanted)), np.zeros(len(wanted))
    low, high = np.full(len(wanted), np.inf), np.full(len(wanted), -np.inf)
    for piece in pieces:
        values = np.array([piece.column(name).to_numpy() for name in wanted]).reshape(
            len(wanted), piece.num_rows
        )
        size = piece.num_rows
        here = values.mean(axis=1)
        spread = ((values - here[:, None]) ** 2).sum(axis=1)
        gap = here - mean
        squares = squares + spread + gap**2 * (count * size / (count + size))
        mean = mean + gap * (size / (count + size))
        low, high = np.minimum(low, values.min(axis=1)), np.maximum(high, values.max(axis=1))
        count += size
    # The mean of equal numbers may miss them by a rounding, which must not be scaled up.
    deviation = np.where(low == high, 0.0, np.sqrt(squares / max(count, 1)))
    return {
        name: (float(mean[place]), float(deviation[place])) for place, name in enumerate(wanted)
    }

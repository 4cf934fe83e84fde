"""The sums of a wave over Arrow batches: computed by batch, and merged."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign.decide.learning import scale_of
from seqbatch.campaign.features.encoder import Room, vectors
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.warehouse.assignments import MARKS
from seqbatch.campaign.warehouse.sums import CHANCES, RESULT_COUNTS, names_of
from seqbatch.campaign.warehouse.wave_list import (
    NOBODY,
    WaveList,
    count_repeated,
    mark_sums,
)
from seqbatch.core.arrays import AnyArray, Bools, Floats, Integers
from seqbatch.core.exact_sums import ExactSums, Scale, Vectors

# ----------------------------------------------------------------------
# The outcomes of a batch of units.


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of some units: their values, NaN if missing, and which are out of range."""

    values: Floats
    beyond: Bools

    @property
    def absent(self) -> Bools:
        """Which are missing."""
        return np.isnan(self.values)

    def counted(self, now: Situation) -> Floats:
        """Return the values that count, NaN for none."""
        counted = np.nan if now.absent is None else now.absent
        return np.where(self.absent, counted, np.where(self.beyond, np.nan, self.values))


# ----------------------------------------------------------------------
# Sums over units and outcomes, computed by piece and merged.
#
# The sums are integers: they depend neither on the order of rows nor on how rows are split.


#: An action's index among the active ones, a part of the evidence, whether outcomes are known.
Key = tuple[int, int, int]
#: The columns of a result that are not sums.
APART = (
    "action", "part", "seen", "distinct_units", "earlier", "altered", "told", *MARKS, "statement",
)  # fmt: skip
#: The columns of a tally that is sent between processes.
SCHEMA = pa.schema(
    {
        "place": pa.int64(),
        "part": pa.int64(),
        "seen": pa.int64(),
        "sums": pa.list_(pa.string()),
        "ids": pa.binary(),
    }
)


@dataclass(frozen=True)
class GroupTally:
    """The sums of one group of units.

    Parameters
    ----------
    sums
        Python integers, in the order of a result's columns.
    ids
        128 bits of each unit's id, to find units that are repeated or had an earlier wave, (n, 2).
    """

    sums: NDArray[np.object_]
    ids: AnyArray

    def merged(self, other: "GroupTally") -> "GroupTally":
        """Return the sums of both groups together."""
        return GroupTally(self.sums + other.sums, np.concatenate([self.ids, other.ids]))


@dataclass(frozen=True)
class WaveTally:
    """The sums over some units of a wave, by action, part of the evidence and known outcome."""

    groups: dict[Key, GroupTally]

    @classmethod
    def of(
        cls, now: Situation, given: pa.Table, decided: Decided, outcomes: Outcomes, ids: AnyArray
    ) -> "WaveTally":
        """Return the sums over units, from their columns, decisions, outcomes and marks."""
        values = outcomes.counted(now)
        seen = ~np.isnan(values)
        rewards = now.spec.reward.sign * now.rewards(np.where(seen, values, 0.0), decided.actions)
        places = np.searchsorted(np.array(now.active), decided.actions)
        parts = int(decided.groups.max(initial=0)) + 2
        cells, size = (places * parts + decided.groups + 1) * 2 + seen, len(now.active) * parts * 2
        own = vectors(now.encoder(), given, Room())
        model = ExactSums.zero(size, scale_of(now)).added(own, rewards, cells).products
        chances = decided.probabilities[:, list(now.active)]
        beside = _sums_beside(now, chances, rewards, cells, size).products
        conflicting = np.zeros_like(seen)
        kinds = (outcomes.absent, conflicting, outcomes.beyond, decided.randomised)
        counts = np.stack([
            np.bincount(cells[rows], minlength=size) for rows in (slice(None), *kinds)
        ], axis=1)  # fmt: skip
        order, ends, tally = np.argsort(cells, kind="stable"), counts[:, 0].cumsum(), cls({})
        for cell in np.flatnonzero(counts[:, 0]).tolist():
            added = beside[cell]
            sums = [counts[cell].astype(object), added[0, 1:-1], _upper(added[1:-1, 1:-1]),
                    added[0, -1:], _upper(model[cell])]  # fmt: skip
            mine = ids[order[ends[cell] - counts[cell, 0] : ends[cell]]]
            place, part = divmod(cell // 2, parts)
            tally.groups[place, part - 1, cell % 2] = GroupTally(np.concatenate(sums), mine)
        return tally

    def merged(self, other: "WaveTally") -> "WaveTally":
        """Return the sums over both sets of units together."""
        both = dict(self.groups)
        for key, group in other.groups.items():
            both[key] = both[key].merged(group) if key in both else group
        return WaveTally(both)

    def packed(self) -> pa.RecordBatch:
        """Return the tally as an Arrow batch; :meth:`unpacked` reads it back."""
        rows = [
            (*key, [str(each) for each in group.sums], group.ids.tobytes())
            for key, group in self.groups.items()
        ]
        columns = zip(*rows, strict=True) if rows else [[]] * len(SCHEMA)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(list(column), type=field.type)
                for column, field in zip(columns, SCHEMA, strict=True)
            ],
            schema=SCHEMA,
        )

    @classmethod
    def unpacked(cls, batch: Any) -> "WaveTally":
        """Return the tally of an Arrow batch, or of several packed tallies in one batch."""
        tally = cls({})
        for row in batch.to_pylist():
            sums = np.array([int(each) for each in row["sums"]], dtype=object)
            group = GroupTally(sums, np.frombuffer(row["ids"], dtype="<u8").reshape(-1, 2))
            key = (row["place"], row["part"], row["seen"])
            tally = tally.merged(cls({key: group}))
        return tally

    def ids(self) -> AnyArray:
        """Return the marks of all units."""
        return np.concatenate([NOBODY, *(each.ids for each in self.groups.values())])

    def table(self, now: Situation, fingerprint: str, earlier: WaveList | None = None) -> pa.Table:
        """Return the result in the same form as the SQL statement of sums, for `record_sums`."""
        names = names_of(now)
        added = [name for name in names if name not in APART]
        actions = [now.actions[number].name for number in now.active]
        rows = []
        # As in SQL: a unit may be repeated with another action, or without its outcome.
        ids = self.ids()
        repeated = count_repeated(ids)
        before = WaveList.empty() if earlier is None else earlier
        apart = {"earlier": str(before.among(ids).sum()), "altered": str(int(before.altered(now)))}
        # Sums begin with the units, and those without an outcome.
        told = sum(int(group.sums[0]) - int(group.sums[1]) for group in self.groups.values())
        apart["told"] = str(told)
        for key in sorted(self.groups):
            group = self.groups[key]
            row: dict[str, str | None] = dict(zip(added, map(str, group.sums), strict=True))
            row |= {"action": actions[key[0]], "part": str(key[1]), "seen": str(key[2])}
            row["distinct_units"] = str(len(group.ids) - repeated)
            row |= apart | dict(zip(MARKS, map(str, mark_sums(group.ids)), strict=True))
            rows.append(row | {"statement": fingerprint} | _unknown(now, known=bool(key[2])))
        kinds = [(name, pa.int64() if name in RESULT_COUNTS else pa.string()) for name in names]
        columns = [
            pa.array([row[name] for row in rows], type=pa.string()).cast(kind)
            for name, kind in kinds
        ]
        return pa.table(columns, names=names)


def _sums_beside(
    now: Situation, chances: Floats, rewards: Floats, cells: Integers, size: int
) -> ExactSums:
    """Return the sums of 1, the probabilities and the reward, and of their products, by cell."""
    options, count = chances.shape[1], len(cells)
    scale = Scale((0, *[CHANCES] * options), scale_of(now).reward)
    ones = np.zeros((1, count), dtype=np.int64)
    numbers = np.ascontiguousarray(chances.T)
    own = Vectors(lambda some: numbers[:, some], np.arange(1, options + 1), ones)
    return ExactSums.zero(size, scale).added(own, rewards, cells)


def _upper(products: AnyArray) -> NDArray[np.object_]:
    """Return the products of all pairs of columns, each pair once, in the order of a result."""
    return np.asarray(products[np.triu_indices(len(products))], dtype=object)


def _unknown(now: Situation, *, known: bool) -> dict[str, str | None]:
    """Return nulls for sums over unknown rewards, as a database does."""
    last = now.encoder().dim
    names = ["rewards", *(f"z{place}_{last}" for place in range(last + 1))]
    return {} if known else dict.fromkeys(names)

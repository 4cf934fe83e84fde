"""What units with their outcomes sum up to, piece by piece, and all pieces together.

Sums are of whole numbers: any cut and any order of the rows gives the same ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.warehouse.result import COUNTS, names_of
from seqbatch.core.arrays import AnyArray, Integers
from seqbatch.core.fixed_point import products_of

#: An action's place among those that are given, a part of the evidence, whether outcomes are known.
Key = tuple[int, int, int]
#: Columns of a result that are no sums.
APART = ("action", "part", "seen", "distinct_units", "statement")
#: A tally on its way between processes.
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
    """One group of units.

    Parameters
    ----------
    sums
        Python's own integers, in the order of a result's columns.
    ids
        64 bits of each unit's id, by which units that come twice are found.
    """

    sums: NDArray[np.object_]
    ids: AnyArray

    @classmethod
    def of(
        cls, ids: Sequence[str], counts: Integers, chances: Integers, whole: Integers
    ) -> "GroupTally":
        """Return what rows sum up to.

        Parameters
        ----------
        ids
            The units.
        counts, chances, whole
            What is counted, rounded probabilities, and the model's rounded numbers with the reward
            as the last; one row a unit.
        """
        parts = [
            counts.sum(axis=0).astype(object),
            chances.sum(axis=0).astype(object),
            _upper(products_of(chances)),
            np.array([int(whole[:, -1].sum())], dtype=object),
            _upper(products_of(whole)),
        ]
        marks = b"".join(blake2b(each.encode(), digest_size=8).digest() for each in ids)
        return cls(np.concatenate(parts), np.frombuffer(marks, dtype="<u8"))

    def merged(self, other: "GroupTally") -> "GroupTally":
        """Return both groups as one."""
        return GroupTally(self.sums + other.sums, np.concatenate([self.ids, other.ids]))


@dataclass(frozen=True)
class WaveTally:
    """What some units of a wave sum up to, by action, part of the evidence and known outcome."""

    groups: dict[Key, GroupTally]

    def merged(self, other: "WaveTally") -> "WaveTally":
        """Return the sums of both sets of units together."""
        both = dict(self.groups)
        for key, group in other.groups.items():
            both[key] = both[key].merged(group) if key in both else group
        return WaveTally(both)

    def packed(self) -> pa.RecordBatch:
        """Return the tally as an Arrow batch, of which :meth:`unpacked` makes it again."""
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
        """Return the tally of a packed one, or of several one after another."""
        tally = cls({})
        for row in batch.to_pylist():
            sums = np.array([int(each) for each in row["sums"]], dtype=object)
            group = GroupTally(sums, np.frombuffer(row["ids"], dtype="<u8"))
            key = (row["place"], row["part"], row["seen"])
            tally = tally.merged(cls({key: group}))
        return tally

    def table(self, now: Situation, fingerprint: str) -> pa.Table:
        """Return the result that the statement of sums has, to be handed to `record_sums`."""
        names = names_of(now)
        added = [name for name in names if name not in APART]
        actions = [now.actions[number].name for number in now.active]
        rows = []
        for key in sorted(self.groups):
            group = self.groups[key]
            row: dict[str, str | None] = dict(zip(added, map(str, group.sums), strict=True))
            row |= {"action": actions[key[0]], "part": str(key[1]), "seen": str(key[2])}
            row["distinct_units"] = str(len(np.unique(group.ids)))
            rows.append(row | {"statement": fingerprint} | _unknown(now, known=bool(key[2])))
        kinds = [(name, pa.int64() if name in COUNTS else pa.string()) for name in names]
        columns = [
            pa.array([row[name] for row in rows], type=pa.string()).cast(kind)
            for name, kind in kinds
        ]
        return pa.table(columns, names=names)


def _upper(products: AnyArray) -> NDArray[np.object_]:
    """Return the products of every two columns, each pair once, in the order of a result."""
    return np.asarray(products[np.triu_indices(len(products))], dtype=object)


def _unknown(now: Situation, *, known: bool) -> dict[str, str | None]:
    """Return the sums over rewards that nobody knows: a database says NULL."""
    last = now.encoder().dim
    names = ["rewards", *(f"z{place}_{last}" for place in range(last + 1))]
    return {} if known else dict.fromkeys(names)

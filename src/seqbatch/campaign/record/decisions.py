"""Decisions as tables: store them, return them to users, and look them up by unit."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.files.column_values import Texts
from seqbatch.campaign.files.ids import id_columns
from seqbatch.campaign.record.codec import DAMAGED, unpack
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Extent, Reader
from seqbatch.core.arrays import Bools, Floats, Integers, Places
from seqbatch.errors import StoreError

# ----------------------------------------------------------------------
# Decisions as tables, in the stored form and in the form that users get.


@dataclass(frozen=True)
class Decided:
    """The decisions for some units.

    Parameters
    ----------
    actions
        The number of each unit's action, among all actions including retired ones, shape (n,).
    scores
        The policy's score of that action, shape (n,).
    probabilities
        The probability of every action, 0 for a retired one, shape (n, actions).
    randomised
        Whether the unit's action was drawn uniformly at random, shape (n,).
    groups
        The part of the evidence that its outcome enters, -1 for none, shape (n,).
    """

    actions: Integers
    scores: Floats
    probabilities: Floats
    randomised: Bools
    groups: Integers

    def table(self) -> pa.Table:
        """Return the decisions as a table to store."""
        columns: dict[str, Any] = {
            "action": self.actions.astype(np.int16),
            "score": self.scores,
            "randomised": self.randomised,
            "group": self.groups.astype(np.int32),
        }
        for action in range(self.probabilities.shape[1]):
            columns[f"p{action}"] = np.ascontiguousarray(self.probabilities[:, action])
        return pa.table(columns)

    @classmethod
    def of(cls, table: pa.Table) -> "Decided":
        """Return decisions from a stored table."""
        return cls(
            actions=table["action"].to_numpy().astype(np.int64),
            scores=table["score"].to_numpy(),
            probabilities=np.ascontiguousarray(
                probabilities_of(table, len(table.column_names) - 4)
            ),
            randomised=table["randomised"].to_numpy(),
            groups=table["group"].to_numpy().astype(np.int64),
        )

    def take(self, rows: Places) -> "Decided":
        """Return only the decisions for these units."""
        return Decided(
            self.actions[rows],
            self.scores[rows],
            self.probabilities[rows],
            self.randomised[rows],
            self.groups[rows],
        )


def probabilities_of(table: pa.Table, actions: int) -> Floats:
    """Return the probabilities of so many actions that were stored, shape (n, actions)."""
    return np.stack([table[f"p{action}"].to_numpy() for action in range(actions)]).T


def joined(pieces: list[Decided]) -> Decided:
    """Concatenate decisions."""
    if len(pieces) == 1:
        return pieces[0]
    return Decided(
        np.concatenate([piece.actions for piece in pieces]),
        np.concatenate([piece.scores for piece in pieces]),
        np.concatenate([piece.probabilities for piece in pieces]),
        np.concatenate([piece.randomised for piece in pieces]),
        np.concatenate([piece.groups for piece in pieces]),
    )


def widened(decided: Decided, actions: int) -> Decided:
    """Return decisions with a probability of 0 for actions that were added later."""
    missing = actions - decided.probabilities.shape[1]
    wide = np.pad(decided.probabilities, ((0, 0), (0, missing)))
    return Decided(decided.actions, decided.scores, wide, decided.randomised, decided.groups)


def assignments(
    columns: Sequence[str],
    units: Texts,
    waves: Integers,
    decided: Decided,
    names: list[str],
    *,
    masked: bool = False,
) -> pa.Table:
    """Return the assignments of some units in the form that users get.

    Parameters
    ----------
    columns
        The names of the id columns.
    units, waves, decided
        The ids, waves and decisions of the units.
    names
        The actions' names.
    masked
        Whether to leave out scores and probabilities, which could reveal the actions.
    """
    rows = np.arange(len(units))
    answers: dict[str, Any] = {
        **id_columns(units, columns),
        "action": pa.DictionaryArray.from_arrays(
            decided.actions.astype(np.int32), names
        ).dictionary_decode(),
        "wave": waves.astype(np.int32),
    }
    if masked:
        return pa.table(answers)
    answers |= {
        "score": decided.scores,
        "probability": decided.probabilities[rows, decided.actions],
        "randomised": decided.randomised,
    }
    for number, name in enumerate(names):
        answers[f"p({name})"] = np.ascontiguousarray(decided.probabilities[:, number])
    return pa.table(answers)


def no_assignments(columns: Sequence[str], names: list[str], *, masked: bool = False) -> pa.Table:
    """Return an empty table of assignments."""
    none = np.zeros(0, dtype=np.int64)
    decided = Decided(none, np.zeros(0), np.zeros((0, len(names))), none > 0, none)
    return assignments(columns, [], none, decided, names, masked=masked)


# ----------------------------------------------------------------------
# Look up earlier decisions by unit number.


class EarlierDecisions:
    """Looks up earlier decisions by unit number; caches the chunks used last."""

    #: Chunks to cache. Repeated files usually have their units in the old order.
    KEPT = 32

    def __init__(self, reader: Reader, now: Situation) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[int, Decided] = OrderedDict()

    def decided(self, numbers: Integers) -> tuple[Integers, Decided]:
        """Return the waves and decisions of units, in their order."""
        order = np.argsort(numbers, kind="stable")
        pieces = [
            self._chunk(extent.chunk).take(held - extent.first)
            for extent, held in extents_of(self._reader, numbers[order])
        ]
        return self._now.waves_of(numbers), joined(pieces).take(np.argsort(order))

    def changed(self, numbers: Integers, given: pa.Table) -> dict[str, Integers]:
        """Return the columns in which units differ from when they were assigned, with the rows."""
        order = np.argsort(numbers, kind="stable")
        pieces = []
        for extent, held in extents_of(self._reader, numbers[order]):
            [chunk] = self._reader.unit_chunks(given=True, chunks=[extent.chunk])
            pieces.append(unpack(chunk.given).take(held - extent.first))
        before = pa.concat_tables(pieces).take(np.argsort(order))
        differing = {
            name: np.flatnonzero(_differs(before.column(name), given.column(name)))
            for name in before.column_names
        }
        return {name: rows for name, rows in differing.items() if len(rows)}

    def _chunk(self, number: int) -> Decided:
        if number not in self._recent:
            [chunk] = self._reader.unit_chunks(given=False, chunks=[number])
            decided = Decided.of(unpack(chunk.decided))
            self._recent[number] = widened(decided, len(self._now.actions))
            if len(self._recent) > self.KEPT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(number)
        return self._recent[number]


def _differs(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Bools:
    """Return the rows in which two columns differ; two missing values are the same."""
    one, other = (
        each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in (one, other)
    )
    unequal = pc.fill_null(pc.not_equal(one, other.cast(one.type)), False)
    either = pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other)))
    return np.asarray(either.to_numpy(), dtype=np.bool_)


def extents_of(reader: Reader, numbers: Integers) -> Iterator[tuple[Extent, Integers]]:
    """Yield the chunks that hold units, given in order, each with the numbers that it holds."""
    start = 0
    while start < len(numbers):
        extent = reader.extent_of(int(numbers[start]))
        stop = int(np.searchsorted(numbers, extent.first + extent.count))
        if not (extent.first <= numbers[start] and stop > start):
            raise StoreError(
                f"campaign {reader.name}: no chunk of units holds unit number {numbers[start]}. "
                f"{DAMAGED}",
                code="damaged",
            )
        yield extent, numbers[start:stop]
        start = stop

"""Outcomes as they were recorded: every version of each, and what was known at any event."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.store import OutcomeChunk
from seqbatch.core.arrays import Floats, Integers, Places

ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED = "accepted", "duplicate", "conflict", "quarantined"
VERDICTS = (ACCEPTED, DUPLICATE, CONFLICT, QUARANTINED)


@dataclass(frozen=True)
class Ledger:
    """Accepted outcomes in the order of their events: unit number, version, value, event."""

    numbers: Integers
    versions: Integers
    values: Floats
    events: Integers

    @classmethod
    def of(cls, chunks: Iterable[OutcomeChunk]) -> "Ledger":
        """Gather the accepted rows of recorded chunks."""
        pieces: list[tuple[Integers, Integers, Floats, Integers]] = []
        for chunk in chunks:
            rows = accepted(unpack(chunk.rows))
            events = np.full(rows.num_rows, chunk.event, dtype=np.int64)
            columns = [rows[name].to_numpy() for name in ("number", "version", "value")]
            pieces.append((columns[0], columns[1].astype(np.int64), columns[2], events))
        if not pieces:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, none, np.zeros(0), none)
        return cls(*(np.concatenate(column) for column in zip(*pieces, strict=True)))

    def known(self) -> "Ledger":
        """Return one row a unit, by number: its newest version."""
        # By unit and then by version: the last row of each unit is its newest.
        order = np.lexsort((self.versions, self.numbers))
        numbers = self.numbers[order]
        last = np.ones(len(order), dtype=np.bool_)
        last[:-1] = numbers[1:] != numbers[:-1]
        return self._take(order[last])

    def within(self, low: int, high: int) -> "Ledger":
        """Return the rows of units numbered from low up to, not including, high.

        The rows must be in the order of units, as :meth:`known` and :meth:`split` return them.
        """
        start, stop = np.searchsorted(self.numbers, (low, high)).tolist()
        return self._take(slice(start, stop))

    def split(self) -> tuple["Ledger", "Ledger"]:
        """Return the newest outcomes of units that had none before these rows, and of the others.

        The others had one, which these rows correct.
        """
        newest = self.known()
        first = np.unique(self.numbers[self.versions == 1])
        fresh = np.isin(newest.numbers, first)
        return newest._take(np.flatnonzero(fresh)), newest._take(np.flatnonzero(~fresh))

    def _take(self, rows: Places | slice) -> "Ledger":
        return Ledger(self.numbers[rows], self.versions[rows], self.values[rows], self.events[rows])

    def __len__(self) -> int:
        return len(self.numbers)


def accepted(rows: pa.Table) -> pa.Table:
    """Return the accepted rows of a recorded chunk."""
    return rows.filter(pc.equal(rows["verdict"], VERDICTS.index(ACCEPTED)))

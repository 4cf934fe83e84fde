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

    def known(self, *, at_event: int | None = None) -> "Ledger":
        """Return one row a unit, by number: its newest version at an event, or now."""
        rows = np.arange(len(self.numbers))
        if at_event is not None:
            rows = np.flatnonzero(self.events <= at_event)
        order = rows[np.lexsort((self.versions[rows], self.numbers[rows]))]
        numbers = self.numbers[order]
        last = np.ones(len(order), dtype=np.bool_)
        last[:-1] = numbers[1:] != numbers[:-1]
        return self._take(order[last])

    def within(self, low: int, high: int) -> "Ledger":
        """Return the rows of units numbered from low up to, not including, high."""
        return self._take(np.flatnonzero((self.numbers >= low) & (self.numbers < high)))

    def corrects_before(self, event: int, *, at_event: int) -> bool:
        """Say whether an outcome that was known at `event` was corrected by `at_event`."""
        late = (self.events > event) & (self.events <= at_event) & (self.versions > 1)
        if not late.any():
            return False
        return bool(np.isin(self.numbers[late], self.numbers[self.events <= event]).any())

    def first_known_after(self, event: int, *, at_event: int) -> "Ledger":
        """Return, as known at `at_event`, the outcomes of units that had none at `event`."""
        known = self.known(at_event=at_event)
        before = np.unique(self.numbers[self.events <= event])
        return known._take(np.flatnonzero(~np.isin(known.numbers, before)))

    def _take(self, rows: Places) -> "Ledger":
        return Ledger(self.numbers[rows], self.versions[rows], self.values[rows], self.events[rows])

    def __len__(self) -> int:
        return len(self.numbers)


def accepted(rows: pa.Table) -> pa.Table:
    """Return the accepted rows of a recorded chunk."""
    return rows.filter(pc.equal(rows["verdict"], VERDICTS.index(ACCEPTED)))


def outcome_owners(chunks: Iterable[OutcomeChunk]) -> dict[str, int]:
    """Return the unit number of every outcome id that was accepted."""
    owners: dict[str, int] = {}
    for chunk in chunks:
        rows = accepted(unpack(chunk.rows))
        owners.update(zip(rows["outcome"].to_pylist(), rows["number"].to_pylist(), strict=True))
    return owners

"""Iterate over a campaign's units in pieces, with their decisions and known outcomes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from seqbatch.campaign.record.codec import RowsAtHand, unpack
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.decisions import Decided, widened
from seqbatch.campaign.record.outcomes import Ledger
from seqbatch.campaign.record.store import Reader, UnitChunk
from seqbatch.core.arrays import Integers

#: No outcomes, for a walk that does not need them.
NOTHING_KNOWN = Ledger.of(())


@dataclass(frozen=True)
class Piece:
    """Some units of one wave: a stored chunk, and the known outcomes of its units.

    Parameters
    ----------
    chunk
        The stored chunk, which is unpacked only on request.
    known
        The newest outcome of each unit that has one, in the order of units.
    cells
        The newest metrics of each unit that has any, with or without an outcome.
    """

    chunk: UnitChunk
    known: Ledger
    cells: Ledger

    @property
    def wave(self) -> int:
        """The number of the wave."""
        return self.chunk.wave

    @property
    def whole(self) -> bool:
        """Whether every unit has an outcome."""
        return len(self.known) == self.chunk.count

    @property
    def rows(self) -> Integers:
        """The rows of the chunk whose units have an outcome."""
        return self.known.numbers - self.chunk.first

    def given(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the units' columns: all of them, or the named ones."""
        return unpack(self.chunk.given, columns)

    def decisions(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the stored decisions: all columns, or the named ones."""
        return unpack(self.chunk.decided, columns)

    def decided(self, now: Situation) -> Decided:
        """Return the decisions, with probability 0 for actions added later."""
        return widened(Decided.of(self.decisions()), len(now.actions))

    def holding(self, columns: Sequence[str]) -> "Piece":
        """Return the piece with these columns of its decisions unpacked, for repeated reading."""
        decided = RowsAtHand.of(self.chunk.decided, columns)
        return replace(self, chunk=replace(self.chunk, decided=decided))


def walk(
    reader: Reader,
    known: Ledger = NOTHING_KNOWN,
    *,
    wave: int | None = None,
    chunks: Sequence[int] | None = None,
    until: int | None = None,
    given: bool = False,
) -> Iterator[Piece]:
    """Yield a campaign's units in order, one piece at a time, with constant memory use.

    Parameters
    ----------
    reader
        The reader for the campaign's record.
    known
        The newest outcome of each unit, in the order of units.
    wave, chunks
        Only this wave, or only the chunks with these numbers.
    until
        Only units that were assigned up to this event.
    given
        Whether to read the units' columns too.
    """
    if wave is not None:
        chunks = [extent.chunk for extent in reader.extents(wave=wave)]
    for chunk in reader.unit_chunks(given=given, chunks=chunks):
        if until is None or chunk.event <= until:
            cells = known.within(chunk.first, chunk.first + chunk.count)
            yield Piece(chunk, cells.rewarded(), cells)


def known_outcomes(reader: Reader, now: Situation) -> Ledger:
    """Return the newest outcome of each unit up to the campaign's last event, with its parts."""
    chunks = reader.outcome_chunks(until_event=now.sequence)
    return Ledger.of(chunks, parts=len(now.spec.parts)).known()

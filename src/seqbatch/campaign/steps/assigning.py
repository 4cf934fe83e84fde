"""Give the units of a checked file their actions: decide for the new ones, answer for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seqbatch.campaign import chain
from seqbatch.campaign.answers import Writer, answer, no_answers
from seqbatch.campaign.blobs import pack, unpack_state
from seqbatch.campaign.columns import Problems
from seqbatch.campaign.contract import Change, UnitChunk
from seqbatch.campaign.decisions import Decided, decide, joined
from seqbatch.campaign.draws import Draws
from seqbatch.campaign.files import Source
from seqbatch.campaign.logbook import Logbook
from seqbatch.campaign.situation import Situation, situation
from seqbatch.campaign.stored import Stored, decoded
from seqbatch.errors import CampaignStateError, StoreError

Integers = NDArray[np.int64]
#: The decisions of no units.
NOBODY = Decided(
    actions=np.zeros(0, dtype=np.int64),
    scores=np.zeros(0),
    probabilities=np.zeros((0, 0)),
    holdout=np.zeros(0, dtype=np.bool_),
    groups=np.zeros(0, dtype=np.int64),
)


@dataclass(frozen=True)
class Assigned:
    """What a call of assign did.

    Parameters
    ----------
    wave
        The wave that was open.
    assigned, repeated, left_over
        Units that got an action now, had one already, and found no room.
    left
        How many units the wave still takes; None where the calendar decides.
    actions
        How many of the units assigned now got each action.
    holdout
        How many of them are measured apart.
    event
        The number of the event; None where nothing was new.
    table
        The answers, where they were not written to a file.
    """

    wave: int
    assigned: int
    repeated: int
    left_over: int
    left: int | None
    actions: dict[str, int]
    holdout: int
    event: int | None
    table: pa.Table | None = None


@dataclass
class Assigning:
    """One call of assign within its transaction.

    Parameters
    ----------
    change
        The transaction.
    logbook
        Who signs.
    partial
        Whether to take the first units that fit where there is no room for all.
    """

    change: Change
    logbook: Logbook
    partial: bool
    now: Situation = field(init=False)

    def __post_init__(self) -> None:
        self.now = situation(self.change.events())
        self._policy = self.now.made_policy()
        record = self.change.last_state()
        assert record is not None
        self._state: Any = None
        self._record = record
        extents = self.change.extents()
        self._stored = Stored(self.change, extents, len(self.now.actions))
        self._chunk = len(extents)
        self._number = self.now.assigned
        self._hashes: list[str] = []
        self._without: list[Integers] = []
        self._counts = np.zeros(len(self.now.actions), dtype=np.int64)
        self._fresh = self._new = self._repeated = self._over = self._holdout = 0

    def run(
        self,
        source: Source,
        made: list[Draws],
        out: Writer | None,
        rest: Writer | None,
        report: Callable[[int], None],
    ) -> Assigned:
        """Decide for every unit of a checked file, and write the answers."""
        encoder = self.now.encoder(wave=self.now.wave)
        names = [action.name for action in self.now.actions]
        # Columns come first: where nobody gets an answer, they are the file.
        tables, start = [no_answers(self.now.spec.unit, names)], 0
        if out is not None:
            out.write(tables[0])
        for batch, drawn in zip(source.batches(encoder.columns), made, strict=True):
            units, given = encoder.prepared(batch, start, Problems())
            start += len(units)
            report(start)
            fits, waves, decided = self._batch(units, given, drawn)
            if len(fits) < len(units):
                without = np.setdiff1d(np.arange(len(units)), fits)
                self._without.append(without + start - len(units))
            if not len(fits) or (self._over and not self.partial):
                continue
            kept = units if len(fits) == len(units) else [units[row] for row in fits]
            table = answer(self.now.spec.unit, kept, waves, decided, names)
            if out is None:
                tables.append(table)
            else:
                out.write(table)
        self._refuse_overflow()
        if rest is not None and self._over:
            self._spill(source, rest)
        event = self._finish()
        left = self.now.left
        return Assigned(
            wave=self.now.wave,
            assigned=self._new,
            repeated=self._repeated,
            left_over=self._over,
            left=None if left is None else left - self._new,
            actions=dict(zip(names, self._counts.tolist(), strict=True)),
            holdout=self._holdout,
            event=event,
            table=pa.concat_tables(tables) if out is None else None,
        )

    def _batch(
        self, units: Sequence[str], given: pa.Table, drawn: Draws
    ) -> tuple[NDArray[np.intp], Integers, Decided]:
        """Return the rows that have an answer, and the answers, deciding where there is none."""
        everyone = np.arange(len(units))
        left = self.now.left
        room = len(units) if left is None else max(left - self._new, 0)
        open_now = self.now.condition == "open"
        # Mostly all units are new, which trying to number them tells faster than asking.
        if open_now and len(units) <= room and self.change.claim(units, self._number):
            self._fresh += len(units)
            decided = self._decide(units, given, drawn, everyone)
            return everyone, np.full(len(units), self.now.wave), decided
        numbers = self.change.numbers(units)
        old, fresh = np.flatnonzero(numbers >= 0), np.flatnonzero(numbers < 0)
        if len(fresh):
            self.now.require_open()
        self._repeated += len(old)
        self._fresh += len(fresh)
        self._over += max(len(fresh) - room, 0)
        fresh = fresh[:room]
        pieces, waves, rows = [NOBODY], [everyone[:0]], [everyone[:0]]
        if self._over and not self.partial:
            return rows[0], waves[0], pieces[0]
        if len(old):
            when, decided = self._stored.decided(numbers[old])
            pieces, waves, rows = [decided], [when], [old]
        if len(fresh):
            new = [units[row] for row in fresh.tolist()]
            if not self.change.claim(new, self._number):
                raise StoreError(f"campaign {self.now.name}: units were numbered by another hand.")
            pieces.append(self._decide(units, given, drawn, fresh))
            waves.append(np.full(len(fresh), self.now.wave))
            rows.append(fresh)
        back = np.argsort(np.concatenate(rows), kind="stable")
        return (
            np.concatenate(rows)[back],
            np.concatenate(waves)[back],
            joined([piece for piece in pieces if len(piece.actions)] or pieces).take(back),
        )

    def _decide(
        self, units: Sequence[str], given: pa.Table, drawn: Draws, fresh: NDArray[np.intp]
    ) -> Decided:
        if self._state is None:
            self._state = unpack_state(self._record.content, self.now)
        if len(fresh) < len(units):
            units = [units[row] for row in fresh]
            given, drawn = given.take(fresh), drawn.take(fresh)
        decided = decide(self.now, self._policy, self._state, given, drawn)
        chunk = UnitChunk(
            chunk=self._chunk,
            event=self.now.sequence + 1,
            wave=self.now.wave,
            first=self._number,
            count=len(units),
            given=pack(given),
            decided=pack(decided.table()),
            hash="",
        )
        hashed = chain.units_hash(self.change.name, chunk)
        self.change.add_units(replace(chunk, hash=hashed))
        self._hashes.append(hashed)
        self._chunk += 1
        self._number += len(units)
        self._new += len(units)
        self._counts += np.bincount(decided.actions, minlength=len(self._counts))
        self._holdout += int(decided.holdout.sum())
        return decided

    def _spill(self, source: Source, rest: Writer) -> None:
        """Write the units that found no room, with all the columns of their file."""
        without, start = np.concatenate(self._without), 0
        for batch in source.batches(source.columns()):
            low, high = np.searchsorted(without, [start, start + batch.num_rows])
            piece = decoded(pa.Table.from_batches([batch]))
            rest.write(piece.take(without[low:high] - start))
            start += batch.num_rows

    def _refuse_overflow(self) -> None:
        if self._over and not self.partial:
            raise CampaignStateError(
                f"wave {self.now.wave} of campaign {self.now.name} has room for {self.now.left:,} "
                f"more units; the file has {self._fresh:,} new ones. Nothing was assigned. "
                "Hand over fewer, or take the first that fit with --partial."
            )

    def _finish(self) -> int | None:
        if not self._new:
            return None
        names = [action.name for action in self.now.actions]
        event = self.logbook.write(
            self.change,
            sequence=self.now.sequence + 1,
            previous=self.now.hash,
            kind="assign",
            counts={
                "assigned": self._new,
                "repeated": self._repeated,
                "left_over": self._over,
                "holdout": self._holdout,
                "actions": dict(zip(names, self._counts.tolist(), strict=True)),
            },
            payload={"wave": self.now.wave, "chunks": len(self._hashes)},
            rows=self._hashes,
        )
        return event.sequence

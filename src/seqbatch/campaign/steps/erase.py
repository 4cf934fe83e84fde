"""Erase units: remove ids and values from every record, and say what cannot be checked then."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seqbatch.campaign.decide.erased_units import ErasedUnits, records_of
from seqbatch.campaign.files.ids import read_ids
from seqbatch.campaign.files.reading import NO_ROWS, Source, no_such_column
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.current_situation import Situation, relearns
from seqbatch.campaign.record.decisions import extents_of
from seqbatch.campaign.record.events import Logbook, current, hash_of, rows_hash, sealed
from seqbatch.campaign.record.logged_rows import KEY
from seqbatch.campaign.record.store import (
    Change,
    OutcomeChunk,
    StateRecord,
    Store,
    UnitChunk,
)
from seqbatch.campaign.steps.amend import require_reason
from seqbatch.core.arrays import Bools, Integers
from seqbatch.display import counted
from seqbatch.errors import DAMAGED, InvalidFileError, RowProblem, StoreError
from seqbatch.timed_steps import timed

NOTHING = "nothing was erased"


@dataclass(frozen=True)
class Erased:
    """The result of an erasure.

    Parameters
    ----------
    units
        How many units were erased now.
    before
        Units of the file that were erased before.
    unknown
        Units of the file that are not in the campaign.
    rows
        Rows of outcome files that were removed, held ones included.
    learned
        Erased units whose outcomes stay in the sums that the policy learned from.
    estimates
        Stored estimates that can no longer be computed from the rows, because they were learned
        from erased units.
    event, hash
        The number and hash of the event; None and "" if there was nothing to erase.
    """

    units: int
    before: int
    unknown: int
    rows: int
    learned: int
    estimates: int
    event: int | None
    hash: str

    def plain(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(vars(self))

    def text(self) -> str:
        """Return the result in sentences."""
        said = [
            f"Erased {counted(self.units, 'unit')} and {counted(self.rows, 'row')} of outcomes."
        ]
        if self.event is None:
            said = ["Nothing was erased: no record has anything of these units."]
        if self.before:
            said.append(f"{counted(self.before, 'unit')} erased before.")
        if self.unknown:
            said.append(f"{counted(self.unknown, 'id')} not in the campaign.")
        if self.learned:
            said.append(f"The policy's sums still include {counted(self.learned, 'outcome')}.")
        return " ".join(said)


# ----------------------------------------------------------------------
# The ids of the file.


def _ids(source: Source, columns: Sequence[str]) -> list[str]:
    """Return the different ids of a file; refuse a file without them."""
    there = source.columns()
    if missing := [name for name in columns if name not in there]:
        raise source.invalid([no_such_column(name, there) for name in missing], NOTHING)
    found: dict[str, None] = {}
    problems: list[RowProblem] = []
    row = 0
    for batch in source.batches(list(columns)):
        ids, wrong = read_ids(batch, columns)
        problems += [
            RowProblem(row + place + 1, column, why, "no-id")
            for place, (column, why) in wrong.items()
        ]
        found |= dict.fromkeys(ids.to_pylist())
        row += batch.num_rows
    source.require_unchanged()
    if problems:
        raise source.invalid(source.placed(problems), NOTHING)
    if not found:
        raise InvalidFileError(source.name, [NO_ROWS], NOTHING)
    return list(found)


# ----------------------------------------------------------------------
# Tables without some of their rows.


def _kept_rows(table: pa.Table, rows: Integers) -> pa.Table:
    """Return only these rows, without the categories that no row has any more."""
    made = table.take(pa.array(rows))
    for place, field in enumerate(made.schema):
        if pa.types.is_dictionary(field.type):
            values = made.column(place).cast(field.type.value_type)
            made = made.set_column(place, field, values.dictionary_encode().cast(field.type))
    return made


def _runs(kept: Bools) -> Iterator[Integers]:
    """Yield the runs of rows that are kept.

    >>> [run.tolist() for run in _runs(np.array([True, False, False, True, True]))]
    [[0], [3, 4]]
    """
    rows = np.flatnonzero(kept)
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        if len(run):
            yield run


# ----------------------------------------------------------------------
# The estimates that erased units were learned for, which their rows no longer give.


def _unprovable(change: Change, now: Situation, numbers: Integers) -> list[int]:
    """Return the events whose estimates were learned from these units."""
    events = change.events()
    relearned = [e.sequence for e in events if e.kind == "amend" and relearns(e.payload)]
    learned = sorted([*now.closes, *relearned])
    # A wave's close tests how many of its units have an outcome, whether or not they have one.
    waves = set(now.waves_of(numbers).tolist())
    found = {now.closes[wave - 1] for wave in waves if wave <= len(now.closes)}
    if now.spec.stopping.rule != "none":
        # A look is at all waves so far.
        found |= set(now.closes[min(waves, default=1) - 1 :])
    for _, _, _, event in change.outcome_versions(numbers):
        found |= {next((each for each in learned if each >= event), 0)}
        found |= {each for each in relearned if each > event}
    return sorted(found - {0})


# ----------------------------------------------------------------------
# The erasure, within its transaction.


class Erasing:
    """One erasure within its transaction.

    Parameters
    ----------
    change, logbook
        The transaction, and the logbook that writes the event.
    ids
        The ids to erase.
    """

    def __init__(self, change: Change, logbook: Logbook, ids: list[str]) -> None:
        self._change, self._logbook, self._ids = change, logbook, ids
        self._now = current(change)
        self._event = self._now.sequence + 1
        self._known = ErasedUnits.of(change, self._now)
        pairs = zip(change.numbers(ids).tolist(), ids, strict=True)
        self._units = {number: unit for number, unit in pairs if number >= 0}
        self._numbers = np.array(sorted(self._units), dtype=np.int64)
        #: The hashes of each event's records, in the order in which its own hash has them.
        self._hashes: dict[int, dict[str, tuple[str, ...]]] = defaultdict(dict)

    def run(self, why: str) -> Erased:
        """Erase the units; write no event if the campaign has nothing of them."""
        before = int(self._known.among(self._ids).sum())
        unknown = len(self._ids) - len(self._units) - before
        outcomes = list(self._outcomes())
        rows = sum(int(gone.sum()) for _, _, gone in outcomes)
        if not self._units and not rows:
            return Erased(0, before, unknown, 0, 0, 0, None, "")
        said = self._said()
        units = list(self._chunks_of_units())
        self._read_hashes()
        self._change.erase(self._event, units=self._units, rows=_keys(outcomes))
        for chunk, table, gone in outcomes:
            self._replace_outcomes(chunk, table, gone)
        for one in units:
            self._replace_units(one)
        event = self._logbook.write(
            self._change,
            self._now,
            kind="erase",
            why=why,
            counts={"units": len(self._units), "rows": rows},
            payload={**said, "records": self._records()},
        )
        return Erased(
            units=len(self._units), before=before, unknown=unknown, rows=rows,
            learned=said["learned"], estimates=len(said["states"]),
            event=event.sequence, hash=event.hash,
        )  # fmt: skip

    def _outcomes(self) -> Iterator[tuple[OutcomeChunk, pa.Table, Bools]]:
        """Yield the chunks of outcomes with rows to remove, and which rows those are."""
        ids = pa.array(self._ids, type=pa.string())
        for chunk in self._change.outcome_chunks():
            table = unpack(chunk.rows)
            gone = np.isin(table["number"].to_numpy(), self._numbers)
            if "unit" in table.column_names:
                # A held row may name a unit that the campaign does not have.
                gone |= pc.is_in(table["unit"].cast(pa.string()), value_set=ids).to_numpy()
            if gone.any():
                self._require_whole(chunk)
                yield chunk, table, gone

    def _chunks_of_units(self) -> Iterator[UnitChunk]:
        """Yield the chunks of units with units to erase."""
        for extent, _ in extents_of(self._change, self._numbers):
            [chunk] = self._change.unit_chunks(given=True, chunks=[extent.chunk])
            self._require_whole(chunk)
            yield chunk

    def _require_whole(self, chunk: UnitChunk | OutcomeChunk) -> None:
        """Refuse to replace a record that was changed: its replacement would hide that."""
        if hash_of(self._change.name, chunk) != chunk.hash:
            raise self._damaged(chunk.event)

    def _damaged(self, event: int) -> StoreError:
        return StoreError(
            f"campaign {self._change.name}: a record of event {event} was changed. Nothing was "
            "erased. Verify the campaign, and restore the database.",
            code=DAMAGED,
        )

    def _said(self) -> dict[str, Any]:
        """Return what the event says of the erased units, except for the new records."""
        now = self._now
        waves = now.waves_of(self._numbers)
        versions, cells, absent = self._change.outcomes(self._numbers, parts=len(now.spec.parts))
        valued = (versions > 0) & ~np.isnan(cells[:, 0])
        closed = (waves < now.wave) & ~np.isin(waves, now.skipped)
        return {
            "numbers": self._numbers.tolist(),
            "salt": self._known.salt,
            # In their own order, which does not tell whose mark each one is.
            "marks": sorted(self._known.marks_of(list(self._units.values()))),
            "open": int((waves == now.wave).sum()),
            "observed": int((valued & (waves == now.wave)).sum()),
            "learned": int(((valued | absent) & closed).sum()),
            "emptied": self._emptied(waves),
            "states": _unprovable(self._change, now, self._numbers),
        }

    def _emptied(self, waves: Integers) -> list[int]:
        """Return the closed waves of which no unit is left."""
        found = []
        for wave in sorted({wave for wave in waves.tolist() if wave < self._now.wave}):
            left = sum(extent.count for extent in self._change.extents(wave=wave))
            if left == int((waves == wave).sum()):
                found.append(wave)
        return found

    def _read_hashes(self) -> None:
        """Read the hashes of all records, and compare those of each event with its own hash."""
        change = self._change
        records: tuple[Iterator[OutcomeChunk | StateRecord | UnitChunk], ...] = (
            change.outcome_chunks(), change.states(), change.unit_chunks(given=False),
        )  # fmt: skip
        for some in records:
            for record in some:
                self._hashes[record.event][record.hash] = (record.hash,)
        expected = records_of(change.events())
        for event in self._hashes:
            if rows_hash(list(self._hashes[event])) != expected[event]:
                raise self._damaged(event)

    def _replace_outcomes(self, chunk: OutcomeChunk, table: pa.Table, gone: Bools) -> None:
        self._change.drop_outcomes(chunk.chunk)
        left = _kept_rows(table, np.flatnonzero(~gone))
        if not left.num_rows:
            self._hashes[chunk.event][chunk.hash] = ()
            return
        rows = self._change.kept(left, kind="outcomes", event=self._event, chunk=chunk.chunk)
        made = sealed(self._change.name, replace(chunk, count=left.num_rows, rows=rows))
        self._change.add_outcomes(made)
        self._hashes[chunk.event][chunk.hash] = (made.hash,)

    def _replace_units(self, chunk: UnitChunk) -> None:
        """Split a chunk around the erased units, so that all others keep their numbers."""
        self._change.drop_units(chunk.chunk)
        numbers = np.arange(chunk.first, chunk.first + chunk.count)
        given, decided = unpack(chunk.given), unpack(chunk.decided)
        hashes, number = list[str](), chunk.chunk
        for run in _runs(~np.isin(numbers, self._numbers)):
            first = chunk.first + int(run[0])
            place: dict[str, Any] = {"event": self._event, "chunk": number, "first": first}
            made = replace(
                chunk,
                chunk=number,
                first=first,
                count=len(run),
                given=self._change.kept(_kept_rows(given, run), kind="units", **place),
                decided=self._change.kept(_kept_rows(decided, run), kind="decisions", **place),
            )
            made = sealed(self._change.name, made)
            self._change.add_units(made)
            hashes.append(made.hash)
            number, _ = self._change.next_chunks()
        self._hashes[chunk.event][chunk.hash] = tuple(hashes)

    def _records(self) -> dict[str, str]:
        """Return the hash over the records that each changed event has now."""
        found = {}
        for event, replaced in sorted(self._hashes.items()):
            if any(new != (old,) for old, new in replaced.items()):
                every = [each for new in replaced.values() for each in new]
                found[str(event)] = rows_hash(every)
        return found


def _keys(outcomes: list[tuple[OutcomeChunk, pa.Table, Bools]]) -> list[tuple[str, int]]:
    """Return the keys of the logged rows to remove, with the numbers of their units."""
    found: dict[tuple[str, int], None] = {}
    for _, table, gone in outcomes:
        if KEY in table.column_names:
            rows = table.select([KEY, "number"]).filter(pa.array(gone))
            keys = zip(rows[KEY].to_pylist(), rows["number"].to_pylist(), strict=True)
            found |= dict.fromkeys((key, number) for key, number in keys if number >= 0)
    return list(found)


def erase(store: Store, name: str, logbook: Logbook, units: Source, *, why: str) -> Erased:
    """Erase the units of a file in one transaction, then the bytes that the store still has."""
    require_reason(why)
    with units:
        with store.read(name) as reader:
            now = current(reader)
        now.require_rows("Delete them from its tables.")
        ids = _ids(units, now.spec.unit)
        with store.change(name) as change, timed("erase"):
            made = Erasing(change, logbook, ids).run(why)
    # Also if there was nothing to erase: an earlier call may have been interrupted before this.
    store.scrub(name)
    return made

"""Verify a campaign: check its schema, and every hash, index row, estimate and decision again."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from seqbatch.campaign.decide.erased_units import erased_numbers, records_of, unprovable
from seqbatch.campaign.decide.keyed_looks import keyed_looks
from seqbatch.campaign.files.parallel_pieces import over
from seqbatch.campaign.record.codec import unpack
from seqbatch.campaign.record.current_situation import relearns, situation
from seqbatch.campaign.record.events import current, hash_of, rows_hash
from seqbatch.campaign.record.outcomes import counting
from seqbatch.campaign.record.store import (
    OutcomeChunk,
    Reader,
    RowsElsewhere,
    StateRecord,
    Store,
    Tombstone,
    UnitChunk,
)
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.views.seal import Seal, broken
from seqbatch.campaign.views.signatures import Signature, signatures
from seqbatch.campaign.views.verify_checks import (
    NAMED,
    ROUNDING,
    DecisionChecks,
    Discrepancies,
    Finding,
    IndexedRecords,
    PastSituations,
    StateChecks,
    StoredAbsences,
    Verified,
    differences,
    out_of_range,
    surplus,
    wrong_fold,
    wrong_keyed_looks,
    wrong_sums,
)
from seqbatch.campaign.views.verify_rows import RowChecks
from seqbatch.campaign.warehouse.statement import UNPROVEN
from seqbatch.display import counted, enumerated
from seqbatch.errors import (
    StoreError,
)

# ----------------------------------------------------------------------
# Verification: recompute every hash, index row, estimate and decision.
#
# The hash chain shows that nothing was changed; the replay shows that the declared policy made the
# decisions. Decisions are replayed from the stored states, states are recomputed from the stored
# rows, and both are compared bit for bit. Another machine may round differently: differences
# within `ROUNDING` are reported in a note, not as damage.
#
# Records are read one chunk at a time, so memory does not grow with the campaign.


C = TypeVar("C", UnitChunk, OutcomeChunk)
STOPPED = (
    "a file of units is damaged, so no id can be looked up; chunks of other units that were not "
    "replayed for this reason: {:,}. Restore the file, then verify again"
)
#: The first words of a finding for a record that the store could not read.
_UNREADABLE = "cannot be read: StoreError: "


def verify(
    store: Store,
    name: str,
    *,
    seal: Seal | None = None,
    signer: str | Path | None = None,
    key: Key | None = None,
) -> Verified:
    """Check one campaign from end to end, and against a seal if one is given.

    The looks of a key holder are computed again with the key, or once the campaign is unmasked.
    """
    with store.read(name) as reader:
        if key is not None:
            key.require_fitting(current(reader).key)
        found, cut = _Verifying(reader, key).run(), []
        tombstones = store.tombstones()
        if seal is not None:
            said = broken(reader, tombstones, seal, signer=signer)
            cut = [Finding(seal.event, "seal", text) for text in said]
        buried = _tombstones(tombstones, reader.number)
    made = [Finding(0, place, said, "schema") for place, said in store.schema_differences()]
    return replace(found, findings=(*made, *buried, *found.findings, *cut))


def _tombstones(tombstones: Sequence[Tombstone], number: int) -> list[Finding]:
    """Check the tombstones of deleted campaigns: their hashes, and that none is missing.

    A tombstone allows to delete its campaign's records, so an existing campaign must not have one.
    """
    found, previous = [], ""
    for tombstone in tombstones:
        place = f"tombstone of campaign {tombstone.name!r}"
        if hash_of(tombstone.name, tombstone) != tombstone.hash:
            found.append(Finding(0, place, "does not match its hash"))
        if tombstone.previous != previous:
            found.append(Finding(0, place, "the tombstone before it is missing"))
        if tombstone.campaign == number:
            found.append(Finding(0, place, "the campaign exists"))
        previous = tombstone.hash
    return found


def _stopped(found: list[Finding]) -> list[Finding]:
    """Return the findings about unit chunks that a damaged file, named in another finding, caused.

    The index of ids is read from all unit files, so one damaged file breaks every lookup.
    """
    led_to = {f"{_UNREADABLE}{finding.problem}"[:300] for finding in found}
    return [each for each in found if "unit chunk" in each.place and each.problem in led_to]


def _read(chunk: C) -> tuple[C, list[str], list[pa.Table]]:
    """Return a chunk, the problems of its rows, and the rows."""
    problems: list[str] = []
    tables: list[pa.Table] = []
    for content in (value for value in vars(chunk).values() if isinstance(value, bytes)):
        try:
            tables.append(unpack(content))
        except StoreError as error:
            what = "" if isinstance(content, RowsElsewhere) else _UNREADABLE
            problems.append(f"{what}{error}"[:300])
    return chunk, problems, [] if problems else tables


class _Verifying:
    def __init__(self, reader: Reader, key: Key | None = None) -> None:
        self._reader, self._events = reader, reader.events()
        self._erased = erased_numbers(self._events)
        self._key, self._unchecked = key, 0
        self._past, self._findings = PastSituations(self._events), Discrepancies()
        self._decisions = DecisionChecks(reader, self._past, self._findings)
        # The hashes of each event's records, collected while reading.
        self._hashes: dict[int, list[str]] = {event.sequence: [] for event in self._events}
        self._absent, self._indexed = StoredAbsences(), IndexedRecords()
        self._row_checks = RowChecks(reader, self._past, self._findings, self._indexed)
        self._recomputed = 0

    def run(self) -> Verified:
        guard = self._findings.guard
        guard(0, "events", self._chain)
        # Unreadable events cannot be replayed; the hashes are still checked, record by record.
        guard(1, "spec", self._past.read)
        guard(0, "fold", self._fold)
        guard(0, "outcome chunks", self._outcome_chunks)
        guard(0, "states", self._state_records)
        guard(0, "unit chunks", self._unit_chunks)
        guard(0, "lots", self._decisions.highest_lots)
        guard(0, "rows of events", self._rows)
        guard(0, "indexes", self._index_sizes)
        if self._past.readable:
            self._learn_again()
            guard(0, "looks", self._keyed_looks)
        return self._verified()

    def _learn_again(self) -> None:
        checks = StateChecks(self._reader, self._past, self._absent, self._findings)
        erased = unprovable(self._events)
        for event in self._events:
            learns = event.kind == "amend" and relearns(event.payload)
            if event.sequence in erased:
                continue
            if learns or event.kind in ("create", "close"):
                self._findings.guard(event.sequence, "state", lambda e=event: checks.estimate(e))
            if event.kind == "sums":
                self._findings.guard(event.sequence, "sums", lambda e=event: checks.sums(e))
        self._recomputed = checks.recomputed

    def _keyed_looks(self) -> None:
        """Compute the looks of the key holder again; without the key, say that it was not done."""
        taken = [event for event in self._events if event.kind == "look"]
        key = self._key or self._revealed()
        # Looks are computed from the rows of all closed waves.
        if key is None or unprovable(self._events):
            self._unchecked = len(taken)
            return
        made = keyed_looks(self._reader, self._events, key)
        for problem in wrong_keyed_looks(made, self._events, key):
            self._findings.add(*problem)

    def _revealed(self) -> Key | None:
        """Return the key that unmasking recorded."""
        for event in self._events:
            if event.kind == "unmask":
                said = event.payload
                return Key(self._reader.name, said["codes"], said["control"], said["salt"])
        return None

    def _verified(self) -> Verified:
        """Return the findings in the order of events, with the notes."""
        notes: tuple[str, ...] = ()
        if self._unchecked:
            looks = counted(self._unchecked, "look")
            why = "units were erased" if unprovable(self._events) else "that takes the key"
            notes += (f"{looks} of the key holder not checked: {why}",)
        notes += self._erasures()
        if self._findings.rounded:
            notes += (
                f"recomputed numbers differ by up to {self._findings.rounded:.1g}, within rounding "
                f"({ROUNDING:g}): they come from another machine or another version of a library",
            )
        notes += tuple(
            UNPROVEN.format(event.payload["wave"])
            for event in self._events
            if "elsewhere" in event.payload
        )
        if stopped := _stopped(self._findings.found):
            notes += (STOPPED.format(len(stopped)),)
        found = [finding for finding in self._findings.found if finding not in stopped]
        order = tuple(sorted(found, key=lambda finding: finding.event))
        replayed, recomputed = self._decisions.replayed, self._recomputed
        outcomes = self._indexed.outcomes
        signed: tuple[Signature, ...] = ()
        # A damaged signature is among the findings.
        with suppress(KeyError, TypeError):
            signed = signatures(self._events)
        return Verified(len(self._events), replayed, outcomes, recomputed, order, notes, signed)

    def _erasures(self) -> tuple[str, ...]:
        """Say what erasures leave unchecked."""
        if not self._erased:
            return ()
        events = enumerated([str(e.sequence) for e in self._events if e.kind == "erase"])
        numbers = sorted(self._erased)
        shown = ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")
        every, many = counted(len(numbers), "unit"), "s" * (events != events.split()[0])
        said = f"{every} erased by event{many} {events} (number {shown})"
        together, lost = self._decisions.unreplayed, len(unprovable(self._events))
        left = [f"{counted(lost, 'estimate')} learned from them"] if lost else []
        left += [f"{counted(together, 'decision')} made together with theirs"] if together else []
        if left:
            said += f"; not computed again: {' and '.join(left)}, whose hashes match"
        return (said,)

    def _chain(self) -> None:
        previous = ""
        if not self._events:
            self._findings.add(0, "events", "there are none; a campaign starts with one")
        for place, event in enumerate(self._events, start=1):
            if event.sequence != place:
                self._findings.add(event.sequence, "sequence", f"should be number {place}")
            if event.previous != previous:
                self._findings.add(
                    event.sequence, "previous", "is not the hash of the previous event"
                )
            if hash_of(self._reader.name, event) != event.hash:
                self._findings.add(event.sequence, "hash", "the event does not match it")
            previous = event.hash
        if self._events:
            spec = self._events[0].payload.get("spec", {})
            named = spec.get("name") if isinstance(spec, dict) else None
            if named != self._reader.name:
                self._findings.add(
                    1, "name", f"the store has {self._reader.name!r}, the event {named!r}"
                )
        self._keys()
        fold = self._reader.fold()
        if fold is not None and fold.event > len(self._events):
            self._findings.add(fold.event, "event", "was recorded, but is missing")

    def _fold(self) -> None:
        """Rebuild the fold from the events, and compare it with the stored one."""
        fold = self._reader.fold()
        lost = fold is not None and fold.event > len(self._events)
        if lost or not (self._past.readable and self._events):
            return  # reported already
        now = situation(self._events)
        if problem := wrong_fold(fold, now, self._events[-1]):
            self._findings.add(now.sequence, "fold", problem)

    def _keys(self) -> None:
        """Check that the key used to unmask the campaign matches its fingerprint."""
        key = self._revealed()
        for event in self._events:
            if event.kind != "unmask" or key is None:
                continue
            if key.fingerprint != self._events[0].payload.get("key"):
                self._findings.add(event.sequence, "key", "is not the one of the declaration")

    def _record(self, record: UnitChunk | OutcomeChunk | StateRecord, place: str) -> None:
        """Check a record's hash, and that the record belongs to an event."""
        if hash_of(self._reader.name, record) != record.hash:
            self._findings.add(record.event, place, "does not match its hash")
        if record.event in self._hashes:
            self._hashes[record.event].append(record.hash)
        else:
            self._findings.add(record.event, place, "its event is missing")

    def _rows(self) -> None:
        expected = records_of(self._events)
        for event in self._events:
            if rows_hash(self._hashes[event.sequence]) != expected[event.sequence]:
                self._findings.add(event.sequence, "rows", "do not match the event's hash")

    def _outcome_chunks(self) -> None:
        guard = self._findings.guard
        for chunk, problems, rows in over(_read, self._reader.outcome_chunks()):
            place = f"outcome chunk {chunk.chunk}"
            guard(chunk.event, place, lambda c=chunk, p=place: self._record(c, p))
            for problem in problems:
                self._findings.add(chunk.event, place, problem)
            if not problems:
                guard(chunk.event, place, lambda c=chunk, r=rows: self._outcome_rows(c, *r))
        if self._past.readable:
            guard(0, "rows", self._row_checks.finish)

    def _outcome_rows(self, chunk: OutcomeChunk, rows: pa.Table) -> None:
        """Compare a chunk's rows that count with the indexes."""
        rows = counting(rows)
        self._indexed.outcomes += rows.num_rows
        self._indexed.outcomes_found += rows.num_rows
        self._absent.note(chunk.event, rows)
        spec = None
        if self._past.readable:
            self._row_checks.add(chunk, rows)
            spec = self._past.after(chunk.event).spec
        found: list[tuple[str, str]] = []
        if not self._reader.derived:
            found += differences(self._reader, rows, chunk.event, spec)
            self._indexed.outcomes_found -= len(found)
        if spec is not None:
            found += wrong_sums(rows, spec)
            found += out_of_range(rows, spec)
        for place, problem in found:
            self._findings.add(chunk.event, place, problem)

    def _state_records(self) -> None:
        for state in self._reader.states():
            place = f"state after wave {state.wave}"
            self._findings.guard(state.event, place, lambda s=state, p=place: self._record(s, p))

    def _unit_chunks(self) -> None:
        guard = self._findings.guard
        for chunk, problems, rows in over(_read, self._reader.unit_chunks(given=True)):
            place = f"unit chunk {chunk.chunk}"
            guard(chunk.event, place, lambda c=chunk, p=place: self._record(c, p))
            for problem in problems:
                self._findings.add(chunk.event, place, problem)
            while self._indexed.units in self._erased:
                self._indexed.units += 1
            if chunk.first != self._indexed.units:
                self._findings.add(
                    chunk.event, place, f"starts at {chunk.first}, not {self._indexed.units}"
                )
            self._indexed.units = chunk.first + chunk.count
            if self._decisions.open_before(chunk.event):
                guard(chunk.event, place, self._decisions.replay_together)
            if not problems:
                guard(chunk.event, place, lambda c=chunk, r=rows: self._decisions.replay(c, *r))
        guard(0, "unit chunks", self._decisions.replay_together)

    def _index_sizes(self) -> None:
        """Look for index rows that belong to no record; all other rows were compared already."""
        if self._reader.derived:
            return
        self._indexed.units_found = self._decisions.indexed
        for place, problem in surplus(self._reader, self._indexed):
            self._findings.add(0, place, problem)

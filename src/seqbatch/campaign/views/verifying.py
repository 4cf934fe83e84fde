"""Prove a campaign: every hash, every index row, every estimate and every decision, again.

The hash chain shows that nothing was changed; the replay shows that what was decided is what the
declared policy decides. Decisions are replayed from the stored states, states are computed again
from the stored rows, and all are compared bit for bit. Another machine may round otherwise: numbers
that agree to `ROUNDING` are told in a note, and are no damage.

Records are read one chunk at a time, so that memory does not grow with the campaign.
"""

from bisect import bisect
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from seqbatch.campaign.deciding.absence import absentees
from seqbatch.campaign.deciding.balanced import Together
from seqbatch.campaign.deciding.decisions import decide
from seqbatch.campaign.deciding.draws import draws, lots
from seqbatch.campaign.deciding.learning import closed, relearned
from seqbatch.campaign.deciding.news import News
from seqbatch.campaign.design.masking import Key
from seqbatch.campaign.record.codec import agreement, difference, unpack, unpack_state
from seqbatch.campaign.record.events import hash_of, rows_hash
from seqbatch.campaign.record.outcomes import Ledger, counting
from seqbatch.campaign.record.situation import Situation, history, relearns
from seqbatch.campaign.record.store import (
    Event,
    OutcomeChunk,
    Reader,
    RowsElsewhere,
    StateRecord,
    Store,
    UnitChunk,
)
from seqbatch.campaign.tables.ahead import over
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.tables.encoder import learn
from seqbatch.campaign.tables.texts import as_column
from seqbatch.campaign.views.outcome_checks import StoredAbsences, differences, wrong_sums
from seqbatch.campaign.views.proposal_checks import wrong_adoption, wrong_proposal
from seqbatch.campaign.views.sealing import Seal, broken
from seqbatch.campaign.views.stopping_checks import wrong_look
from seqbatch.campaign.views.surplus import NAMED, surplus
from seqbatch.campaign.warehouse.evidence import UNPROVEN, learned_elsewhere, wrong_evidence
from seqbatch.core.arrays import Integers
from seqbatch.errors import StoreError

C = TypeVar("C", UnitChunk, OutcomeChunk)
#: Numbers that differ by less, relative to the largest beside them, were rounded otherwise.
ROUNDING = 1e-9
STOPPED = (
    "no id can be looked up while a file of units is damaged; chunks of other units that were "
    "therefore not decided on again: {:,}. Verify once more when the file is restored"
)
#: How a finding begins whose record made a store refuse.
_UNREADABLE = "cannot be read: StoreError: "


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be: the event (0: an index), the place, what differs."""

    event: int
    place: str
    problem: str

    def __str__(self) -> str:
        where = f"event {self.event}" if self.event else "index"
        return f"{where}, {self.place}: {self.problem}"


@dataclass(frozen=True)
class Verified:
    """What a verification looked at, what it found, and what is no damage but should be known."""

    events: int
    units: int
    outcomes: int
    states: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(
    store: Store, name: str, *, seal: Seal | None = None, signer: str | Path | None = None
) -> Verified:
    """Check one campaign from end to end, and against a seal where one is given."""
    with store.read(name) as reader:
        found, cut = _Verifying(reader).run(), []
        if seal is not None:
            said = broken(reader, seal, signer=signer)
            cut = [Finding(seal.event, "seal", text) for text in said]
    return replace(found, findings=(*_tombstones(store), *found.findings, *cut))


def _tombstones(store: Store) -> list[Finding]:
    """Check what is left of campaigns that were deleted: their hashes, and that none is missing."""
    found, previous = [], ""
    for tombstone in store.tombstones():
        place = f"tombstone of campaign {tombstone.name!r}"
        if hash_of(tombstone.name, tombstone) != tombstone.hash:
            found.append(Finding(0, place, "is not what was signed"))
        if tombstone.previous != previous:
            found.append(Finding(0, place, "the one before it is missing"))
        previous = tombstone.hash
    return found


def _stopped(found: list[Finding]) -> list[Finding]:
    """Return the findings at chunks of units that a file named by another finding led to.

    The index of ids is read from all files of units: one that is damaged stops every lookup.
    """
    led_to = {f"{_UNREADABLE}{finding.problem}"[:300] for finding in found}
    return [each for each in found if "unit chunk" in each.place and each.problem in led_to]


@dataclass(frozen=True)
class _Waiting:
    """A chunk whose event is not over: its units are decided on together with the others."""

    event: int
    units: pa.Array
    given: Any
    stored: Decided
    known: Any


def _read(chunk: C) -> tuple[C, list[str], list[pa.Table]]:
    """Return a chunk, what is wrong with its rows, and the rows."""
    problems: list[str] = []
    tables: list[pa.Table] = []
    for content in (value for value in vars(chunk).values() if isinstance(value, bytes)):
        try:
            tables.append(unpack(content))
        except StoreError as error:
            what = "" if isinstance(content, RowsElsewhere) else _UNREADABLE
            problems.append(f"{what}{error}"[:300])
    return chunk, problems, [] if problems else tables


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Say whether two accounts of prices agree, but for rounding."""
    prices, others = ({**each["prices"], "": each["budget_price"] or 0.0} for each in (one, two))
    return (
        one["prices_in"] == two["prices_in"]
        and prices.keys() == others.keys()
        and all(
            abs(price - others[name]) <= ROUNDING * max(1.0, abs(price))
            for name, price in prices.items()
        )
    )


class _Verifying:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._events = reader.events()
        self._findings: list[Finding] = []
        self._usable = False
        self._history: Iterator[Situation] = iter(())
        self._now: Situation | None = None
        self._rounded = 0.0
        # The hashes of every event's records, as they are found.
        self._hashes: dict[int, list[str]] = {event.sequence: [] for event in self._events}
        self._absent = StoredAbsences()
        self._units = self._outcomes = self._states = 0
        # The events that came with a new state, and the state after one of them.
        self._turns = [e.sequence for e in self._events if e.kind in ("create", "close", "amend")]
        self._state: tuple[int, Any] | None = None
        # The units of one event that are decided on together.
        self._together: list[_Waiting] = []
        # The highest lot of every event that drew its units.
        self._drawn: dict[int, int] = {}

    def run(self) -> Verified:
        self._guard(0, "events", self._chain)
        # What cannot be read cannot be replayed; the hashes are still checked, record by record.
        self._guard(1, "spec", self._fold)
        self._guard(0, "outcome chunks", self._outcome_chunks)
        self._guard(0, "states", self._state_records)
        self._guard(0, "unit chunks", self._unit_chunks)
        self._guard(0, "lots", self._highest_lots)
        self._guard(0, "rows of events", self._rows)
        self._guard(0, "indexes", self._index_sizes)
        if self._usable:
            for event in self._events:
                learns = event.kind == "amend" and relearns(event.payload)
                if learns or event.kind in ("create", "close"):
                    self._guard(event.sequence, "state", lambda e=event: self._estimate(e))
        notes: tuple[str, ...] = ()
        if self._rounded:
            notes = (
                f"numbers computed again differ by up to {self._rounded:.1g}, within rounding "
                f"({ROUNDING:g}): another machine or another library made them",
            )
        notes += tuple(
            UNPROVEN.format(event.payload["wave"])
            for event in self._events
            if "elsewhere" in event.payload
        )
        stopped = _stopped(self._findings)
        if stopped:
            notes += (STOPPED.format(len(stopped)),)
        found = [finding for finding in self._findings if finding not in stopped]
        order = tuple(sorted(found, key=lambda finding: finding.event))
        return Verified(len(self._events), self._units, self._outcomes, self._states, order, notes)

    def _fold(self) -> None:
        """Find out whether every event can be read."""
        deque(history(self._events), maxlen=0)
        self._usable = True

    def _after(self, event: int) -> Situation:
        """Return where the campaign stood after an event.

        Events are asked for in order, or from the start again; one situation is kept, not all.
        """
        if self._now is None or self._now.sequence > event:
            self._history = history(self._events)
            self._now = next(self._history)
        while self._now.sequence < event:
            self._now = next(self._history)
        return self._now

    def _find(self, event: int, place: str, problem: str) -> None:
        # The number of an event may itself be damaged.
        number = event if isinstance(event, int) else 0
        self._findings.append(Finding(number, place, problem))

    def _guard(self, event: int, place: str, call: Any) -> Any:
        """Call, and turn what a damaged record can raise into a finding."""
        try:
            return call()
        except Exception as error:
            self._find(event, place, f"cannot be read: {type(error).__name__}: {error}"[:300])
            return None

    def _chain(self) -> None:
        previous = ""
        if not self._events:
            self._find(0, "events", "there are none; a campaign begins with one")
        for place, event in enumerate(self._events, start=1):
            if event.sequence != place:
                self._find(event.sequence, "sequence", f"should be number {place}")
            if event.previous != previous:
                self._find(event.sequence, "previous", "is not the hash of the event before")
            if hash_of(self._reader.name, event) != event.hash:
                self._find(event.sequence, "hash", "the event is not what was signed")
            previous = event.hash
        if self._events:
            spec = self._events[0].payload.get("spec", {})
            named = spec.get("name") if isinstance(spec, dict) else None
            if named != self._reader.name:
                self._find(1, "name", f"the store says {self._reader.name!r}, the event {named!r}")
        self._keys()
        fold = self._reader.fold()
        if fold is not None and fold.event > len(self._events):
            self._find(fold.event, "event", "there was such an event, and it is missing")

    def _keys(self) -> None:
        """Compare the key that a masked campaign was unmasked with to its fingerprint."""
        for event in self._events:
            if event.kind != "unmask":
                continue
            said = event.payload
            key = Key(self._reader.name, said["codes"], said["control"], said["salt"])
            if key.fingerprint != self._events[0].payload.get("key"):
                self._find(event.sequence, "key", "is not the one that was made at create")

    def _record(self, record: UnitChunk | OutcomeChunk | StateRecord, place: str) -> None:
        """Check a record's hash, and that it belongs to an event."""
        if hash_of(self._reader.name, record) != record.hash:
            self._find(record.event, place, "its bytes are not those that were hashed")
        if record.event in self._hashes:
            self._hashes[record.event].append(record.hash)
        else:
            self._find(record.event, place, "belongs to no event; its event is missing")

    def _rows(self) -> None:
        for event in self._events:
            if rows_hash(self._hashes[event.sequence]) != event.rows_hash:
                self._find(event.sequence, "rows", "are not those that were signed")

    def _outcome_chunks(self) -> None:
        for chunk, problems, rows in over(_read, self._reader.outcome_chunks()):
            place = f"outcome chunk {chunk.chunk}"
            self._guard(chunk.event, place, lambda c=chunk, p=place: self._record(c, p))
            for problem in problems:
                self._find(chunk.event, place, problem)
            if not problems:
                self._guard(chunk.event, place, lambda c=chunk, r=rows: self._outcome_rows(c, *r))

    def _outcome_rows(self, chunk: OutcomeChunk, rows: pa.Table) -> None:
        """Compare the rows of a chunk that count with the indexes."""
        rows = counting(rows)
        self._outcomes += rows.num_rows
        self._absent.note(chunk.event, rows)
        spec = self._after(1).spec if self._usable else None
        found: list[tuple[str, str]] = []
        if not self._reader.derived:
            found += differences(self._reader, rows, chunk.event, spec)
        if spec is not None:
            found += wrong_sums(rows, spec)
        for place, problem in found:
            self._find(chunk.event, place, problem)
        numbers = rows["number"].to_numpy()
        if "outcome" in rows.column_names:
            self._owners(chunk.event, rows["outcome"].to_pylist(), numbers)

    def _owners(self, event: int, ids: list[str], numbers: Integers) -> None:
        for text, number, owner in zip(
            ids, numbers.tolist(), self._reader.owners(ids).tolist(), strict=True
        ):
            if number != owner:
                problem = f"the index says unit number {owner}, the record {number}"
                self._find(event, f"outcome id {text!r}", problem)

    def _state_records(self) -> None:
        for state in self._reader.states():
            place = f"state after wave {state.wave}"
            self._guard(state.event, place, lambda s=state, p=place: self._record(s, p))
            self._states += 1

    def _unit_chunks(self) -> None:
        for chunk, problems, rows in over(_read, self._reader.unit_chunks(given=True)):
            place = f"unit chunk {chunk.chunk}"
            self._guard(chunk.event, place, lambda c=chunk, p=place: self._record(c, p))
            for problem in problems:
                self._find(chunk.event, place, problem)
            if chunk.first != self._units:
                self._find(chunk.event, place, f"starts at {chunk.first}, not {self._units}")
            self._units = chunk.first + chunk.count
            if self._together and self._together[0].event != chunk.event:
                self._guard(chunk.event, place, self._replay_together)
            if not problems:
                self._guard(chunk.event, place, lambda c=chunk, r=rows: self._replay(c, *r))
        self._guard(0, "unit chunks", self._replay_together)

    def _replay(self, chunk: UnitChunk, given: pa.Table, decided: pa.Table) -> None:
        """Look the units of a chunk up in the index, and decide again for them."""
        stored = Decided.of(decided)
        if not given.num_rows == len(stored.actions) == chunk.count:
            rows = f"{given.num_rows:,} units and {len(stored.actions):,} decisions"
            self._find(chunk.event, f"unit chunk {chunk.chunk}", f"has {rows}, not {chunk.count}")
            return
        units = as_column(given.column(0))
        numbers = self._reader.numbers(units)
        expected = np.arange(chunk.first, chunk.first + len(units))
        for row in np.flatnonzero(numbers != expected)[:NAMED]:
            problem = f"the index says number {numbers[row]}, not {expected[row]}"
            if numbers[row] < 0:
                problem = "is not in the index"
            self._find(chunk.event, f"unit {units[row].as_py()!r}", problem)
        if not self._usable or chunk.event > len(self._events):
            return
        now = self._after(chunk.event - 1)
        if chunk.wave != now.wave:
            self._find(chunk.event, f"unit chunk {chunk.chunk}", f"is not of wave {now.wave}")
        self._lots(chunk.event, now, units)
        drawn = draws(now.spec.seed, now.name, units, by=now.spec.draws, lots=False)
        if (known := self._known(now)) is None:
            return
        if now.spec.balanced:
            self._together.append(_Waiting(chunk.event, units, given, stored, known))
        else:
            again = decide(now, now.made_policy(), known, given, drawn)
            self._compare(chunk.event, now, units, stored, again)

    def _replay_together(self) -> None:
        """Decide again for the units of one event that were decided on together."""
        waiting, self._together = self._together, []
        if not waiting:
            return
        now = self._after(waiting[0].event - 1)
        event = Together(now, now.made_policy())
        for piece in waiting:
            event.add(piece.units, piece.given, piece.known)
        logged = np.concatenate([piece.stored.probabilities for piece in waiting])
        again, start = event.decided(np.ascontiguousarray(logged[:, list(now.active)])), 0
        for piece in waiting:
            rows = np.arange(start, start + len(piece.units))
            self._compare(piece.event, now, piece.units, piece.stored, again.decided.take(rows))
            start += len(piece.units)
        said = self._events[piece.event - 1].payload.get("limits")
        if said is not None and again.prices is not None and not _same(said, again.plain(now)):
            problem = f"a replay gives the prices {again.plain(now)}, stored is {said}"
            self._find(piece.event, "limits", problem)

    def _known(self, now: Situation) -> Any:
        """Return what the policy knew, None where it is not on record.

        Only closing and amending change it: one state is kept, as units come in order.
        """
        turn = self._turns[bisect(self._turns, now.sequence) - 1]
        if self._state is None or self._state[0] != turn:
            record = self._reader.last_state(before_event=now.sequence + 1)
            found = None if record is None else unpack_state(record.content, now)
            self._state = turn, found
        return self._state[1]

    def _lots(self, event: int, now: Situation, units: pa.Array) -> None:
        """Draw the units of an event again; who else was on the list is not on record."""
        draw = self._events[event - 1].payload.get("draw")
        if draw is None:
            return
        drawn = lots(now.spec.seed, now.name, units, before=now.assigned)
        limit = int(draw["highest_lot"], 16)
        for row in np.flatnonzero(drawn > np.uint64(limit))[:NAMED]:
            place = f"unit {units[row].as_py()!r}"
            self._find(event, place, "has a lot above the highest that was drawn")
        self._drawn[event] = max(self._drawn.get(event, 0), int(drawn.max()))

    def _highest_lots(self) -> None:
        for event, highest in self._drawn.items():
            said = self._events[event - 1].payload["draw"]["highest_lot"]
            if highest < int(said, 16):
                problem = f"the highest drawn is said to be {said}, a replay gives {highest:016x}"
                self._find(event, "lots", problem)

    def _compare(
        self, event: int, now: Situation, units: pa.Array, stored: Decided, again: Decided
    ) -> None:
        differs = (
            (again.actions != stored.actions)
            | (again.randomised != stored.randomised)
            | (again.groups != stored.groups)
        )
        for one, two in (
            (again.scores, stored.scores), (again.probabilities, stored.probabilities),
        ):  # fmt: skip
            apart = difference(one, two)
            if 0 < apart < ROUNDING:
                self._rounded = max(self._rounded, apart)
            elif apart:
                other = one.view(np.int64) != two.view(np.int64)
                differs |= other if other.ndim == 1 else other.any(axis=1)
        names = [action.name for action in now.actions]
        for row in np.flatnonzero(differs)[:NAMED]:
            problem = (
                f"a replay gives {names[again.actions[row]]} with score {again.scores[row]!r}, "
                f"stored is {names[stored.actions[row]]} with {stored.scores[row]!r}"
            )
            self._find(event, f"unit {units[row].as_py()!r}", problem)

    def _index_sizes(self) -> None:
        """Look for rows of the indexes that no record knows; others were compared already."""
        if self._reader.derived:
            return
        for place, problem in surplus(self._reader, units=self._units, outcomes=self._outcomes):
            self._find(0, place, problem)

    def _estimate(self, event: Event) -> None:
        """Compute a state again from the rows, and compare it with the stored one."""
        stored = self._reader.last_state(before_event=event.sequence + 1)
        if stored is None or stored.event != event.sequence:
            self._find(event.sequence, "state", "is missing")
            return
        # Before first, then after: what is asked for in order is not folded twice.
        state = self._closed(event, stored) if event.kind == "close" else None
        before = self._after(event.sequence - 1) if event.kind == "amend" else None
        if before and (problem := wrong_adoption(before, self._events, event)):
            self._find(event.sequence, "adopted proposal", problem)
        now = self._after(event.sequence)
        if event.kind == "create":
            state = now.made_policy().begin(now.problem())
        elif event.kind == "amend":
            known = Ledger.of(self._reader.outcome_chunks(until_event=event.sequence)).known()
            state = relearned(now, self._reader, known, waves=now.wave - 1)
        apart = agreement(state, unpack_state(stored.content, now))
        if 0 < apart < ROUNDING:
            self._rounded = max(self._rounded, apart)
        elif apart:
            self._find(event.sequence, f"state after wave {stored.wave}",
                       "learning the stored rows again gives other numbers")  # fmt: skip

    def _closed(self, event: Event, stored: StateRecord) -> Any:
        now = self._after(event.sequence - 1)
        if (said := event.payload.get("elsewhere")) is not None:
            return self._closed_elsewhere(event, now, said)
        if now.wave == 1:
            chunks = [extent.chunk for extent in self._reader.extents(wave=1)]
            learned = learn(
                now.encoder(),
                lambda: (
                    unpack(c.given) for c in self._reader.unit_chunks(given=True, chunks=chunks)
                ),
                units=now.units[0],
            ).plain()
            said = event.payload["learned"]
            if learned != said:
                self._find(event.sequence, "learned", f"the rows give {learned}, not {said}")
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        after = self._after(event.sequence)
        learner = replace(now, learned=after.learned, skipped=after.skipped)
        events = self._events[: event.sequence - 1]
        if problem := wrong_look(self._reader, learner, events, event, (before, stored)):
            self._find(event.sequence, "stopping", problem)
        news = News.since(self._reader, now, before.event)
        skip, at = now.wave in after.skipped, datetime.fromisoformat(event.at)
        gone = absentees(self._reader, now, news.fresh, at=at, skip=skip)
        if problem := self._absent.problem(event.sequence, gone):
            self._find(event.sequence, "absent units", problem)
        if gone.waiting != after.waiting:
            problem = f"the times of events give {gone.waiting}, not {after.waiting}"
            self._find(event.sequence, "waiting assignments", problem)
        news = news.counting(gone.ledger(parts=0))
        state = closed(learner, unpack_state(before.content, now), self._reader, news)
        if problem := wrong_proposal(learner, state, event):
            self._find(event.sequence, "proposal", problem)
        return state

    def _closed_elsewhere(self, event: Event, now: Situation, said: dict[str, Any]) -> Any:
        """Learn again from the sums on record, and make the statement again that they are of."""
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        state = unpack_state(before.content, now)
        if problem := wrong_evidence(now, state, said):
            self._find(event.sequence, "sums", problem)
        return learned_elsewhere(now, state, said["sums"])

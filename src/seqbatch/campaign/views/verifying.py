"""Prove a campaign: every hash, every index row, every estimate and every decision, again.

The hash chain shows that nothing was changed; the replay shows that what was decided is what the
declared policy decides. Decisions are replayed from the stored states and compared bit for bit;
states are computed anew from the stored rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqbatch.campaign.deciding.decisions import decide
from seqbatch.campaign.deciding.draws import draws
from seqbatch.campaign.deciding.learning import closed, relearned
from seqbatch.campaign.record.codec import pack_state, unpack, unpack_state
from seqbatch.campaign.record.events import hash_of, rows_hash
from seqbatch.campaign.record.outcomes import Ledger, accepted
from seqbatch.campaign.record.situation import Situation, history
from seqbatch.campaign.record.store import Event, Reader, StateRecord, Store, UnitChunk
from seqbatch.campaign.tables.assignments import Decided
from seqbatch.campaign.tables.encoder import learn_scaling

#: Differences of one kind that are named one by one.
NAMED = 20


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
    """What a verification looked at, and what it found."""

    events: int
    units: int
    outcomes: int
    states: int
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def verify(store: Store, name: str) -> Verified:
    """Check one campaign from end to end."""
    with store.read(name) as reader:
        return _Verifying(reader).run()


class _Verifying:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._events = reader.events()
        self._findings: list[Finding] = []
        self._history: list[Situation] = []
        self._units: dict[str, int] = {}
        self._ledger = Ledger.of(())

    def run(self) -> Verified:
        counts = {"units": 0, "outcomes": 0, "states": 0}
        hashes: dict[int, list[str]] = {event.sequence: [] for event in self._events}
        self._chain()
        self._guard(1, "spec", self._fold)
        usable = len(self._history) == len(self._events)
        self._outcomes(hashes, counts)
        states = self._states(hashes, counts)
        self._unit_chunks(hashes, counts, states if usable else {})
        self._rows(hashes)
        self._number_index()
        if usable:
            self._estimates(states)
        order = sorted(self._findings, key=lambda finding: finding.event)
        return Verified(len(self._events), counts["units"], counts["outcomes"], counts["states"],
                        tuple(order))  # fmt: skip

    def _fold(self) -> None:
        self._history = list(history(self._events))

    def _after(self, event: int) -> Situation:
        """Return where the campaign stood after an event."""
        return self._history[event - 1]

    def _find(self, event: int, place: str, problem: str) -> None:
        self._findings.append(Finding(event, place, problem))

    def _guard(self, event: int, place: str, call: Any) -> Any:
        """Call, and turn what a damaged record can raise into a finding."""
        try:
            return call()
        except Exception as error:
            self._find(event, place, f"cannot be read: {type(error).__name__}: {error}"[:300])
            return None

    def _chain(self) -> None:
        previous = ""
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

    def _rows(self, hashes: dict[int, list[str]]) -> None:
        for event in self._events:
            if rows_hash(hashes[event.sequence]) != event.rows_hash:
                self._find(event.sequence, "rows", "are not those that were signed")

    def _outcomes(self, hashes: dict[int, list[str]], counts: dict[str, int]) -> None:
        chunks = []
        for chunk in self._reader.outcome_chunks():
            place = f"outcome chunk {chunk.chunk}"
            hashes.setdefault(chunk.event, []).append(chunk.hash)
            if hash_of(self._reader.name, chunk) != chunk.hash:
                self._find(chunk.event, place, "its bytes are not those that were hashed")
            rows = self._guard(chunk.event, place, lambda c=chunk: accepted(unpack(c.rows)))
            if rows is not None:
                counts["outcomes"] += rows.num_rows
                chunks.append(chunk)
        self._ledger = Ledger.of(chunks)
        self._outcome_index()

    def _outcome_index(self) -> None:
        kept = {
            (int(n), int(v)): (float(x), int(e))
            for n, v, x, e in zip(
                self._ledger.numbers,
                self._ledger.versions,
                self._ledger.values,
                self._ledger.events,
                strict=True,
            )
        }
        for number, version, value, event in self._reader.outcome_index():
            known = kept.pop((number, version), None)
            place = f"outcome of unit number {number}, version {version}"
            if known is None:
                self._find(event, place, "is in the index but was never recorded")
            elif known != (value, event):
                problem = f"the index says {value!r} of event {event}, the record {known}"
                self._find(known[1], place, problem)
        for (number, version), (_, event) in list(kept.items())[:NAMED]:
            self._find(event, f"outcome of unit number {number}, version {version}",
                       "was recorded but is not in the index")  # fmt: skip

    def _states(
        self, hashes: dict[int, list[str]], counts: dict[str, int]
    ) -> dict[int, StateRecord]:
        states = {}
        for state in self._reader.states():
            hashes.setdefault(state.event, []).append(state.hash)
            if hash_of(self._reader.name, state) != state.hash:
                self._find(state.event, f"state after wave {state.wave}",
                           "its bytes are not those that were hashed")  # fmt: skip
            states[state.event] = state
            counts["states"] += 1
        return states

    def _unit_chunks(
        self, hashes: dict[int, list[str]], counts: dict[str, int], states: dict[int, StateRecord]
    ) -> None:
        expected = 0
        for chunk in self._reader.unit_chunks(given=True):
            hashes.setdefault(chunk.event, []).append(chunk.hash)
            place = f"unit chunk {chunk.chunk}"
            if hash_of(self._reader.name, chunk) != chunk.hash:
                self._find(chunk.event, place, "its bytes are not those that were hashed")
            if chunk.first != expected:
                self._find(chunk.event, place, f"starts at {chunk.first}, not {expected}")
            expected = chunk.first + chunk.count
            counts["units"] += chunk.count
            self._guard(chunk.event, place, lambda c=chunk: self._replay(c, states))

    def _replay(self, chunk: UnitChunk, states: dict[int, StateRecord]) -> None:
        """Decide again for the units of a chunk."""
        given, stored = unpack(chunk.given), Decided.of(unpack(chunk.decided))
        units = given.column(0).to_pylist()
        for place, unit in enumerate(units):
            self._units[unit] = chunk.first + place
        if not states:
            return
        now = self._after(chunk.event - 1)
        state = states[max(event for event in states if event < chunk.event)]
        again = decide(
            now,
            now.made_policy(),
            unpack_state(state.content, now),
            given,
            draws(now.spec.seed, now.name, units),
        )
        differs = (
            (again.actions != stored.actions)
            | (again.randomised != stored.randomised)
            | (again.groups != stored.groups)
            | (again.scores.view(np.int64) != stored.scores.view(np.int64))
            | (again.probabilities.view(np.int64) != stored.probabilities.view(np.int64)).any(
                axis=1
            )
        )
        for row in np.flatnonzero(differs)[:NAMED]:
            names = [action.name for action in now.actions]
            problem = (
                f"a replay gives {names[again.actions[row]]} with score {again.scores[row]!r}, "
                f"stored is {names[stored.actions[row]]} with {stored.scores[row]!r}"
            )
            self._find(chunk.event, f"unit {units[row]!r}", problem)
        if chunk.wave != now.wave:
            self._find(chunk.event, f"unit chunk {chunk.chunk}", f"is not of wave {now.wave}")

    def _number_index(self) -> None:
        left = dict(self._units)
        for unit, number in self._reader.number_index():
            known = left.pop(unit, None)
            if known is None:
                self._find(0, f"unit {unit!r}", "is in the index but was never assigned")
            elif known != number:
                self._find(0, f"unit {unit!r}", f"the index says number {number}, not {known}")
        for unit in list(left)[:NAMED]:
            self._find(0, f"unit {unit!r}", "was assigned but is not in the index")

    def _estimates(self, states: dict[int, StateRecord]) -> None:
        """Learn every wave again from the rows, and compare with the stored states."""
        for event in self._events:
            if event.kind in ("create", "close", "amend"):
                self._guard(event.sequence, "state", lambda e=event: self._estimate(e, states))

    def _estimate(self, event: Event, states: dict[int, StateRecord]) -> None:
        stored = states.get(event.sequence)
        if stored is None:
            if event.kind != "amend":
                self._find(event.sequence, "state", "is missing")
            return
        if event.kind == "create":
            now = self._after(1)
            state = now.made_policy().begin(now.problem())
        elif event.kind == "close":
            state = self._closed(event, states)
        else:
            now = self._after(event.sequence)
            known = self._ledger.known(at_event=event.sequence)
            state = relearned(now, lambda: self._before(event), known, waves=now.wave - 1)
        if pack_state(state) != stored.content:
            self._find(event.sequence, f"state after wave {stored.wave}",
                       "learning the stored rows again gives other numbers")  # fmt: skip

    def _closed(self, event: Event, states: dict[int, StateRecord]) -> Any:
        now = self._after(event.sequence - 1)
        if now.wave == 1:
            pieces = (unpack(chunk.given) for chunk in self._before(event))
            scaling = learn_scaling(now.encoder(), pieces)
            said = {name: tuple(pair) for name, pair in (event.payload["scaling"] or {}).items()}
            if scaling != said:
                self._find(event.sequence, "scaling", f"the rows give {scaling}, not {said}")
        before = states[max(number for number in states if number < event.sequence)]
        learner = replace(now, learned=self._after(event.sequence).learned)
        return closed(
            learner,
            unpack_state(before.content, now),
            lambda: self._before(event),
            self._ledger,
            since=before.event,
            at_event=now.sequence,
            relearn=event.payload["relearned"],
        )

    def _before(self, event: Event) -> Iterator[UnitChunk]:
        chunks = [e.chunk for e in self._reader.extents() if e.event < event.sequence]
        return self._reader.unit_chunks(given=True, chunks=chunks)

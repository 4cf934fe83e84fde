"""The checks of a verification: decisions, outcomes, states, looks, proposals, surplus rows."""

import json
from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from math import isclose
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from seqbatch.campaign.decide.decision import JointDecision, decide
from seqbatch.campaign.decide.draws import draws, lots
from seqbatch.campaign.decide.erased_units import changed_records
from seqbatch.campaign.decide.keyed_looks import KeyedLook
from seqbatch.campaign.decide.learning import closed, relearned
from seqbatch.campaign.decide.repeated_rows import equal
from seqbatch.campaign.decide.replanning import proposed, with_sums
from seqbatch.campaign.decide.row_verdicts import metric_cells, outside
from seqbatch.campaign.decide.stopping import KeptSums, look
from seqbatch.campaign.features.encoder import learn
from seqbatch.campaign.files.column_values import as_column
from seqbatch.campaign.record.codec import agreement, difference, unpack, unpack_kept, unpack_state
from seqbatch.campaign.record.current_situation import Situation, history
from seqbatch.campaign.record.decisions import Decided
from seqbatch.campaign.record.events import canonical, folded, software
from seqbatch.campaign.record.logged_rows import logged_in
from seqbatch.campaign.record.outcomes import (
    ABSENT,
    Absentees,
    Ledger,
    News,
    absentees,
    assumed_terms,
    parts_of,
    terms_of,
    weighted,
)
from seqbatch.campaign.record.store import Event, Fold, Reader, StateRecord, UnitChunk
from seqbatch.campaign.record.stored_units import walk
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.spec.spec import Spec
from seqbatch.campaign.views.signatures import Signature
from seqbatch.campaign.warehouse.findings_statement import differing_sums, look_again
from seqbatch.campaign.warehouse.statement import (
    learned_elsewhere,
    relearned_elsewhere,
    wrong_evidence,
)
from seqbatch.errors import StoreError

# ----------------------------------------------------------------------
# Findings, rounding and past situations, shared by all checks.


#: Relative differences below this count as rounding, not as damage.
ROUNDING = 1e-9
#: The most rows of one kind that are listed one by one.
NAMED = 20


@dataclass(frozen=True)
class Finding:
    """One discrepancy: its event (0 for an index or the schema), the place, and what differs."""

    event: int
    place: str
    problem: str
    #: The part of the store, if the discrepancy belongs to no event.
    part: Literal["index", "schema"] = "index"

    def __str__(self) -> str:
        where = f"event {self.event}" if self.event else self.part
        return f"{where}, {self.place}: {self.problem}"


@dataclass(frozen=True)
class Verified:
    """The result of a verification: what was checked, its findings, and its notes.

    Parameters
    ----------
    events
        The number of events.
    units
        Units whose decisions were recomputed, without those of unreadable chunks.
    outcomes
        Outcome rows that were read.
    states
        Estimates that were recomputed.
    findings, notes
        Discrepancies, and harmless differences worth knowing.
    signatures
        The signatures on record; the hashes cover them.
    """

    events: int
    units: int
    outcomes: int
    states: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


@dataclass
class Discrepancies:
    """The findings so far, and the largest difference that is due to rounding."""

    found: list[Finding] = field(default_factory=list)
    rounded: float = 0.0

    def add(self, event: int, place: str, problem: str) -> None:
        """Add a finding."""
        # The event number itself may be damaged.
        number = event if isinstance(event, int) else 0
        self.found.append(Finding(number, place, problem))

    def guard(self, event: int, place: str, call: Any) -> None:
        """Run a call, and turn any error caused by a damaged record into a finding."""
        try:
            call()
        except Exception as error:
            self.add(event, place, f"cannot be read: {type(error).__name__}: {error}"[:300])

    def beyond_rounding(self, apart: float) -> bool:
        """Say whether a difference is larger than rounding explains; note it if it is not."""
        if 0 < apart < ROUNDING:
            self.rounded = max(self.rounded, apart)
            return False
        return bool(apart)


class PastSituations:
    """The campaign's situation after each event.

    Parameters
    ----------
    events
        All events of the campaign.

    Attributes
    ----------
    readable
        Whether every event can be read. Decisions are replayed only if so.
    """

    def __init__(self, events: list[Event]) -> None:
        self.events, self.readable = events, False
        self._history: Iterator[Situation] = iter(())
        self._now: Situation | None = None

    def read(self) -> None:
        """Check whether every event can be read."""
        deque(history(self.events), maxlen=0)
        self.readable = True

    def after(self, event: int) -> Situation:
        """Return the campaign's situation after an event.

        Only one situation is kept: ask for events in order, or the replay starts again.
        """
        if self._now is None or self._now.sequence > event:
            self._history = history(self.events)
            self._now = next(self._history)
        while self._now.sequence < event:
            self._now = next(self._history)
        return self._now


# ----------------------------------------------------------------------
# Check of the fold: rebuild it from the events.


def wrong_fold(fold: Fold | None, now: Situation, last: Event) -> str | None:
    """Say how the stored fold differs from the events; None if it does not.

    Parameters
    ----------
    fold
        The stored fold.
    now
        The situation after all events.
    last
        The newest event. Another version of seqbatch may have had other fields in its folds.
    """
    if fold is None:
        return "is missing"
    if fold.event != now.sequence:
        return f"is of event {fold.event}, the newest is {now.sequence}"
    again = folded(now)
    try:
        stored = json.loads(fold.content)
    except (ValueError, RecursionError):
        return "is damaged and cannot be read"
    if not isinstance(stored, dict):
        return "is damaged and cannot be read"
    expected = json.loads(again.content)
    names = expected.keys() | stored.keys()
    # A fold from before a field existed lacks it; nothing has happened yet that would fill it.
    names -= {name for name in expected if name not in stored and not expected[name]}
    if last.version != software():
        names = expected.keys() & stored.keys()
    wrong = sorted(name for name in names if _unequal(expected, stored, name))
    if wrong:
        return f"the events give other values of {', '.join(wrong)}"
    if fold.content == again.content and fold.hash != again.hash:
        return "its hash is not that of its content"
    return None


def _unequal(expected: dict[str, Any], stored: dict[str, Any], name: str) -> bool:
    if name not in expected or name not in stored:
        return True
    # Compare texts: 1, 1.0 and True are equal as values.
    if canonical(expected[name]) == canonical(stored[name]):
        return False
    return name != "spec" or canonical(_completed(stored[name])) != canonical(expected[name])


def _completed(spec: Any) -> Any:
    """Return a stored spec with the settings that did not exist when it was stored."""
    try:
        return Spec.model_validate(spec).model_dump(mode="json")
    except ValueError:
        return None


# ----------------------------------------------------------------------
# Checks of recorded outcomes: indexes, sums, ranges, and absent units.


def differences(
    reader: Reader, rows: pa.Table, event: int, spec: Spec | None
) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every outcome that differs from the index.

    Parameters
    ----------
    reader
        The reader of the index.
    rows, event
        The rows of a recorded chunk that count, and the chunk's event.
    spec
        The campaign's spec; None if it cannot be read. The outcome's parts are then not compared.
    """
    parts = 0 if spec is None else len(spec.parts)
    numbers, versions = rows["number"].to_numpy(), rows["version"].to_pylist()
    columns = [rows["value"].to_numpy(), *parts_of(rows, parts).T]
    # Tuples of plain numbers: Python's garbage collector stops tracking them.
    indexed = {
        (number, version): (*found, when)
        for number, version, found, when in reader.outcome_versions(np.unique(numbers))
    }
    cells = zip(*(column.tolist() for column in columns), strict=True)
    for number, version, row in zip(numbers.tolist(), versions, cells, strict=True):
        found = indexed.get((number, version))
        # An absent unit has a single number as its outcome, without parts.
        expected = (*(row if version else row[:1]), event)
        if found != expected and not (found is not None and _alike(found, expected)):
            said = "nothing" if found is None else f"{told(found[:-1])} of event {found[-1]}"
            place = f"outcome of unit number {number}, version {version}"
            yield place, f"the index has {said}, the record {told(expected[:-1])}"


def wrong_sums(rows: pa.Table, spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every reward that its metrics do not add up to.

    If a metric is missing, there is no reward; or, of a unit that counted as absent, the metric has
    its declared value.
    """
    reward = spec.reward
    if reward.plain:
        return
    recorded = rows.filter(pa.array(rows["verdict"].to_numpy() != ABSENT))
    terms = terms_of(spec, parts_of(recorded, len(spec.parts)))
    values = recorded["value"].to_numpy()
    assumed = np.isnan(terms).any(axis=1) & ~np.isnan(values)
    terms = np.where(assumed[:, None], assumed_terms(spec, terms), terms)
    sums = weighted(reward, terms)
    for row in np.flatnonzero(~equal(sums[:, None], values[:, None])).tolist():
        place = f"outcome of unit number {recorded['number'][row].as_py()}"
        stored, total = float(values[row]), float(sums[row])
        yield place, f"the reward is {stored!r}, but its metrics add up to {total!r}"


def out_of_range(rows: pa.Table, spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every accepted number outside its declared range."""
    recorded = rows.filter(pa.array(rows["verdict"].to_numpy() != ABSENT))
    cells = [recorded["value"].to_numpy(), *parts_of(recorded, len(spec.parts)).T]
    metrics = metric_cells(spec, np.column_stack(cells)).T
    for metric, values in zip(spec.metrics.values(), metrics, strict=True):
        for row in np.flatnonzero(outside(metric, values))[:NAMED].tolist():
            assert metric.limits is not None
            place = f"outcome of unit number {recorded['number'][row].as_py()}"
            low, high = metric.limits
            found = f"{metric.name} is {values[row]:g}, outside the declared range"
            yield place, f"{found} {low:g} to {high:g}, but was accepted"


def _alike(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    # A missing metric is NaN, which is not equal to itself.
    if len(left) != len(right):
        return False
    return all(a == b or (a != a and b != b) for a, b in zip(left, right, strict=True))


def told(cells: Sequence[Any]) -> str:
    """Return the cells of an outcome in words."""
    return ", ".join(map(repr, cells))


class StoredAbsences:
    """The absent units of each event, kept as a count and a hash to save memory."""

    def __init__(self) -> None:
        self._hashes: dict[int, Any] = {}
        self._counts: dict[int, int] = {}

    def note(self, event: int, rows: pa.Table) -> None:
        """Add the absent units of a recorded chunk."""
        absent = rows.filter(pa.array(rows["verdict"].to_numpy() == ABSENT))
        self._add(event, absent["number"].to_numpy(), absent["value"].to_numpy())

    def _add(self, event: int, numbers: Any, values: Any) -> None:
        if len(numbers):
            pairs = np.rec.fromarrays([numbers.astype("<i8"), values.astype("<f8")])
            self._hashes.setdefault(event, blake2b()).update(pairs.tobytes())
            self._counts[event] = self._counts.get(event, 0) + len(numbers)

    def problem(self, event: int, gone: Absentees) -> str | None:
        """Say how an event's stored absent units differ from the expected ones; None if equal."""
        expected = StoredAbsences()
        expected._add(event, gone.numbers, gone.values)
        if expected._digest(event) == self._digest(event):
            return None
        stored = self._counts.get(event, 0)
        return (
            f"by the rows, {len(gone.numbers):,} units count as absent; the record has "
            f"{stored:,}, or different ones"
        )

    def _digest(self, event: int) -> str:
        found = self._hashes.get(event)
        return "" if found is None else str(found.hexdigest())


# ----------------------------------------------------------------------
# Checks of looks: recompute their numbers from the stored rows.


#: Differences below this count as rounding.


def wrong_look(
    reader: Reader,
    now: Situation,
    before: list[Event],
    event: Event,
    states: tuple[StateRecord, StateRecord],
) -> str | None:
    """Say what is wrong with the look that a closing stored; None if it is right.

    The look is recomputed from the wave's rows and the sums that the previous look stored. Looks
    are checked in order, so those sums have been verified already.

    Parameters
    ----------
    reader
        The reader of the rows.
    now
        The campaign's situation right after the wave was closed and learned from.
    before, event
        All earlier events, and the closing event.
    states
        The state before the closing, and the state that the closing stored.
    """
    stored = event.payload.get("stopping")
    again, sums = look(reader, now, before, states[0])
    plain = None if again is None else again.plain()
    if not alike(stored, plain):
        if now.withheld:
            return "the rows give another look than the record has"
        return f"the rows give {plain}, the record has {stored}"
    if not _same_sums(sums, states[1]):
        return "the sums stored for the next look differ from those of the rows"
    return None


def wrong_keyed_looks(
    made: Sequence[KeyedLook], events: Sequence[Event], key: Key
) -> Iterator[tuple[int, str, str]]:
    """Yield what is wrong with the looks of a key holder: event, place and problem, no numbers.

    Parameters
    ----------
    made
        The looks, computed again with the key.
    events, key
        All events, and the key.
    """
    taken = [event for event in events if event.kind == "look"]
    for one, event in zip(made, taken, strict=False):
        if (one.verdict, one.seal(key)) != (event.payload["verdict"], event.payload["seal"]):
            yield event.sequence, "look", "the rows give another look than the record has"
    for event in events:
        if event.kind == "unmask" and "looks" in event.payload:
            again = [one.taken.plain() for one in made if one.taken is not None]
            if not alike(event.payload["looks"], again):
                yield event.sequence, "looks", "the rows give other looks than the record has"


def _same_sums(sums: KeptSums | None, stored: StateRecord) -> bool:
    """Whether the sums stored with a state equal these, up to rounding."""
    arrays, kept = {} if sums is None else sums.arrays, unpack_kept(stored.content) or {}
    return arrays.keys() == kept.keys() and all(
        difference(arrays[name], kept[name]) <= ROUNDING for name in arrays
    )


def alike(one: Any, other: Any) -> bool:
    """Say whether two plain values are equal, with numbers compared up to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(one == other)


# ----------------------------------------------------------------------
# Checks of proposals: recompute the sizes, and compare adopted sizes with the proposal.


def wrong_proposal(now: Situation, state: Any, event: Event) -> str | None:
    """Say what is wrong with the proposal that a closing stored; None if it is right.

    Parameters
    ----------
    now
        The campaign's situation right after the wave was closed and learned from.
    state
        The policy's state after the wave, recomputed from the rows.
    event
        The closing event.
    """
    stored = event.payload.get("proposal")
    if stored is None and not now.spec.grid.adaptive:
        return None
    again = proposed(now, state)
    plain = None if again is None else again.plain()
    return None if alike(stored, plain) else f"the rows give {plain}, the record has {stored}"


def wrong_adoption(now: Situation, events: Sequence[Event], event: Event) -> str | None:
    """Say how an adoption differs from the proposal that it names; None if it does not.

    Parameters
    ----------
    now
        The campaign's situation before the adoption.
    events, event
        All events, and the adoption event.
    """
    payload = event.payload
    if "adopted" not in payload:
        return None
    made = events[payload["adopted"] - 1].payload.get("proposal")
    if made is None or now.proposal != made:
        return f"event {payload['adopted']} made no proposal that was open for adoption"
    ahead = payload["sizes"][now.wave - 1 :]
    if (ahead, payload["explored"]) != (made["sizes"], made["explored"]):
        return (
            f"adopted sizes {ahead} with {payload['explored']:g} at random; the proposal was "
            f"{made['sizes']} with {made['explored']:g}"
        )
    return None


# ----------------------------------------------------------------------
# Checks of states: learn from the stored rows again, and compare.


class StateChecks:
    """Recomputes the state after every event that the policy learned from.

    Parameters
    ----------
    reader, past
        The records, and the campaign's past situations.
    absent
        The absent units found in the recorded outcomes.
    findings
        Collects the differences.
    """

    def __init__(
        self, reader: Reader, past: PastSituations, absent: StoredAbsences, findings: Discrepancies
    ) -> None:
        self._reader, self._past, self._absent = reader, past, absent
        self._findings = findings
        #: The number of recomputed estimates.
        self.recomputed = 0

    def estimate(self, event: Event) -> None:
        """Recompute a state from the rows, and compare it with the stored one."""
        stored = self._reader.last_state(before_event=event.sequence + 1)
        if stored is None or stored.event != event.sequence:
            self._findings.add(event.sequence, "state", "is missing")
            return
        # First the situation before, then the one after: in this order, no event is replayed twice.
        state = self._closed(event, stored) if event.kind == "close" else None
        before = self._past.after(event.sequence - 1) if event.kind == "amend" else None
        if before and (problem := wrong_adoption(before, self._past.events, event)):
            self._findings.add(event.sequence, "adopted proposal", problem)
        now = self._past.after(event.sequence)
        if event.kind == "create":
            state = now.made_policy().begin(now.problem())
        elif event.kind == "amend":
            state = self._relearned(event, now)
        kept = unpack_state(stored.content, now)
        self.recomputed += 1
        if self._findings.beyond_rounding(agreement(state, kept)):
            self._findings.add(event.sequence, f"state after wave {stored.wave}",
                       "learning from the stored rows again gives different numbers")  # fmt: skip

    def _relearned(self, event: Event, now: Situation) -> Any:
        if now.spec.rows == "elsewhere":
            return relearned_elsewhere(now, self._past.events[: event.sequence])
        known = Ledger.of(self._reader.outcome_chunks(until_event=event.sequence)).known()
        return relearned(now, self._reader, known, waves=now.wave - 1)

    def sums(self, event: Event) -> None:
        """Generate the statement of sums for findings again, and compare their units."""
        now, events = self._past.after(event.sequence - 1), self._past.events[: event.sequence - 1]
        if problem := differing_sums(now, events, event.payload):
            self._findings.add(event.sequence, "sums", problem)
        elif "stopping" in event.payload:
            again, stored = look_again(now, events, event.payload), event.payload["stopping"]
            if not alike(stored, again):
                problem = f"the sums give {again}, the record has {stored}"
                self._findings.add(event.sequence, "stopping", problem)

    def _closed(self, event: Event, stored: StateRecord) -> Any:
        now = self._past.after(event.sequence - 1)
        if (said := event.payload.get("elsewhere")) is not None:
            return self._closed_elsewhere(event, now, said)
        if now.wave == 1 and now.history is None:
            learned = learn(
                now.encoder(),
                lambda: (piece.given() for piece in walk(self._reader, wave=1, given=True)),
                units=now.in_open_wave,
            ).plain()
            said = event.payload["learned"]
            if learned != said:
                self._findings.add(
                    event.sequence, "learned", f"the rows give {learned}, the record has {said}"
                )
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        after = self._past.after(event.sequence)
        learner = replace(now, learned=after.learned, skipped=after.skipped)
        events = self._past.events[: event.sequence - 1]
        if problem := wrong_look(self._reader, learner, events, event, (before, stored)):
            self._findings.add(event.sequence, "stopping", problem)
        parts = 0 if now.spec.reward.plain else len(now.spec.parts)
        news = News.since(self._reader, now, before.event, parts=parts)
        skip, at = now.wave in after.skipped, datetime.fromisoformat(event.at)
        gone = absentees(self._reader, now, news, at=at, skip=skip)
        if problem := self._absent.problem(event.sequence, gone):
            self._findings.add(event.sequence, "absent units", problem)
        if gone.waiting != after.waiting:
            problem = f"by the events' times {gone.waiting}, by the record {after.waiting}"
            self._findings.add(event.sequence, "waiting assignments", problem)
        news = news.counting(gone.ledger(parts))
        state = closed(learner, unpack_state(before.content, now), self._reader, news)
        if problem := wrong_proposal(learner, state, event):
            self._findings.add(event.sequence, "proposal", problem)
        return state

    def _closed_elsewhere(self, event: Event, now: Situation, said: dict[str, Any]) -> Any:
        """Recompute a state from the recorded sums, and regenerate their SQL statement."""
        before = self._reader.last_state(before_event=event.sequence)
        assert before is not None
        state = unpack_state(before.content, now)
        if wrong := wrong_evidence(now, said):
            self._findings.add(event.sequence, "sums", wrong)
        learned = learned_elsewhere(now, state, said["sums"])
        units, observed = (sum(event.payload[what].values()) for what in ("assigned", "observed"))
        counted = with_sums(now, units=units, observed=observed)
        if problem := wrong_proposal(counted, learned, event):
            self._findings.add(event.sequence, "proposal", problem)
        return learned


# ----------------------------------------------------------------------
# Surplus index rows: rows of an index that belong to no record.


@dataclass
class IndexedRecords:
    """How many records there are that an index must have, and how many the index does have.

    Every record is looked up in its index. If an index has as many rows as were found in this way,
    no row of it is left over, and the index need not be read.
    """

    units: int = 0
    units_found: int = 0
    outcomes: int = 0
    outcomes_found: int = 0
    rows: int = 0
    rows_found: int = 0


def surplus(reader: Reader, records: IndexedRecords) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of every row that is in an index but in no record."""
    numbers, values, rows = reader.index_sizes()
    if numbers != records.units_found:
        yield from islice(_units(reader), NAMED)
    if values != records.outcomes:
        yield "outcomes", f"{values:,} are in the index, {records.outcomes:,} were recorded"
    if values != records.outcomes_found:
        yield from islice(_outcomes(reader), NAMED)
    if rows != records.rows:
        yield "rows", f"{rows:,} are in the index, {records.rows:,} were recorded"
    if rows != records.rows_found:
        yield from islice(_rows(reader), NAMED)


def _units(reader: Reader) -> Iterator[tuple[str, str]]:
    # Read the whole index first: some databases allow only one open query.
    left = deque(sorted(reader.number_index(), key=itemgetter(1)))
    for chunk in reader.unit_chunks(given=True):
        known = _known_ids(chunk)
        while left and left[0][1] < chunk.first + chunk.count:
            unit, number = left.popleft()
            if number < chunk.first or (known is not None and known.get(number) != unit):
                yield f"unit {unit!r}", "is in the index but was never assigned"
    for unit, _ in left:
        yield f"unit {unit!r}", "is in the index but was never assigned"


def _known_ids(chunk: UnitChunk) -> dict[int, str] | None:
    """Return a chunk's ids by unit number; None if it is damaged, which was reported already."""
    try:
        return dict(enumerate(unpack(chunk.given).column(0).to_pylist(), start=chunk.first))
    except StoreError:
        return None


def _outcomes(reader: Reader) -> Iterator[tuple[str, str]]:
    recorded = Ledger.of(reader.outcome_chunks())
    versions = int(recorded.versions.max(initial=0)) + 1
    keys = np.sort(recorded.numbers * versions + recorded.versions)
    for number, version, value, event in reader.outcome_index():
        key = number * versions + version
        place = int(np.searchsorted(keys, key))
        if not 0 <= version < versions or place == len(keys) or keys[place] != key:
            problem = f"{value!r} of event {event} is in the index but was never recorded"
            yield f"outcome of unit number {number}, version {version}", problem


def _rows(reader: Reader) -> Iterator[tuple[str, str]]:
    recorded: set[tuple[str, int]] = set()
    for chunk in reader.outcome_chunks():
        rows = logged_in(chunk, 0)
        recorded.update(zip(rows.keys.to_pylist(), rows.versions.tolist(), strict=True))
    for key, version, event in reader.row_index():
        if (key, version) not in recorded:
            problem = f"of event {event} is in the index but was never recorded"
            yield f"row {key!r}, version {version}", problem


# ----------------------------------------------------------------------
# Checks of decisions: recompute them unit by unit, bit for bit.


@dataclass(frozen=True)
class _Waiting:
    """A chunk that waits for the rest of its event, whose units are decided together."""

    event: int
    units: pa.Array
    given: Any
    stored: Decided
    known: Any


class DecisionChecks:
    """Recomputes the decisions of one chunk after another, in order.

    Parameters
    ----------
    reader, past
        The records, and the campaign's past situations.
    findings
        Collects the differences.
    """

    def __init__(self, reader: Reader, past: PastSituations, findings: Discrepancies) -> None:
        self._reader, self._past, self._findings = reader, past, findings
        # The events that stored a new state, and the most recently loaded state.
        turns = ("create", "close", "amend")
        self._turns = [event.sequence for event in past.events if event.kind in turns]
        self._state: tuple[int, Any] | None = None
        # The units of one event that are decided together.
        self._together: list[_Waiting] = []
        #: The number of units whose decisions were recomputed, and of those found in the index.
        self.replayed = self.indexed = 0
        #: The number of units decided together with others that were erased.
        self.unreplayed = 0
        self._changed = changed_records(past.events)
        # The highest lot of every event that drew its units from a list.
        self._drawn: dict[int, int] = {}

    def open_before(self, event: int) -> bool:
        """Say whether units of an earlier event still wait for the rest of their event."""
        return bool(self._together) and self._together[0].event != event

    def replay(self, chunk: UnitChunk, given: pa.Table, decided: pa.Table) -> None:
        """Look up a chunk's units in the index, and recompute their decisions."""
        stored = Decided.of(decided)
        if not given.num_rows == len(stored.actions) == chunk.count:
            rows = f"{given.num_rows:,} units and {len(stored.actions):,} decisions"
            self._findings.add(
                chunk.event, f"unit chunk {chunk.chunk}", f"has {rows}, not {chunk.count}"
            )
            return
        units = as_column(given.column(0))
        numbers = self._reader.numbers(units)
        expected = np.arange(chunk.first, chunk.first + len(units))
        self.indexed += int((numbers == expected).sum())
        for row in np.flatnonzero(numbers != expected)[:NAMED]:
            problem = f"the index has number {numbers[row]}, the record {expected[row]}"
            if numbers[row] < 0:
                problem = "is not in the index"
            self._findings.add(chunk.event, f"unit {units[row].as_py()!r}", problem)
        if not self._past.readable or chunk.event > len(self._past.events):
            return
        now = self._past.after(chunk.event - 1)
        if chunk.wave != now.wave:
            self._findings.add(
                chunk.event, f"unit chunk {chunk.chunk}", f"does not belong to wave {now.wave}"
            )
        self._lots(chunk.event, now, units)
        drawn = draws(now.spec.seed, now.name, units, by=now.spec.draws, lots=False)
        if (known := self._known(now)) is None:
            return
        if now.spec.balanced and chunk.event in self._changed:
            self.unreplayed += len(units)
        elif now.spec.balanced:
            self._together.append(_Waiting(chunk.event, units, given, stored, known))
        else:
            again = decide(now, now.made_policy(), known, given, drawn)
            self._compare(chunk.event, now, units, stored, again)

    def replay_together(self) -> None:
        """Recompute the decisions of one event's units that were decided together."""
        waiting, self._together = self._together, []
        if not waiting:
            return
        now = self._past.after(waiting[0].event - 1)
        event = JointDecision(now, now.made_policy())
        for piece in waiting:
            event.add(piece.units, piece.given, piece.known)
        logged = np.concatenate([piece.stored.probabilities for piece in waiting])
        again, start = event.decided(np.ascontiguousarray(logged[:, list(now.active)])), 0
        for piece in waiting:
            rows = np.arange(start, start + len(piece.units))
            self._compare(piece.event, now, piece.units, piece.stored, again.decided.take(rows))
            start += len(piece.units)
        payload = self._past.events[piece.event - 1].payload
        strata = {stratum: list(numbers) for stratum, numbers in again.strata.items()}
        if (kept := payload.get("strata", {})) != strata:
            problem = f"a replay counts {strata}, the record has {kept}"
            self._findings.add(piece.event, "strata", problem)
        said = payload.get("limits")
        if said is not None and again.prices is not None and not _same(said, again.plain(now)):
            problem = f"a replay gives the prices {again.plain(now)}, the record has {said}"
            self._findings.add(piece.event, "limits", problem)

    def _known(self, now: Situation) -> Any:
        """Return the policy's state, or None if it is not on record.

        Only closing and amending change the state. Units come in order, so one state is kept.
        """
        turn = self._turns[bisect(self._turns, now.sequence) - 1]
        if self._state is None or self._state[0] != turn:
            record = self._reader.last_state(before_event=now.sequence + 1)
            found = None if record is None else unpack_state(record.content, now)
            self._state = turn, found
        return self._state[1]

    def _lots(self, event: int, now: Situation, units: pa.Array) -> None:
        """Recompute the lots of an event's units; units that were not drawn are not on record."""
        draw = self._past.events[event - 1].payload.get("draw")
        if draw is None:
            return
        spec = now.spec
        drawn = lots(spec.seed, now.name, units, before=now.assigned, by=spec.draws)
        limit = int(draw["highest_lot"], 16)
        for row in np.flatnonzero(drawn > np.uint64(limit))[:NAMED]:
            place = f"unit {units[row].as_py()!r}"
            self._findings.add(event, place, "its lot is above the highest one drawn")
        self._drawn[event] = max(self._drawn.get(event, 0), int(drawn.max()))

    def highest_lots(self) -> None:
        """Compare the highest lot of every event with the one that the event states."""
        for event, highest in self._drawn.items():
            if event in self._changed:
                # The unit with the highest lot may be an erased one.
                continue
            said = self._past.events[event - 1].payload["draw"]["highest_lot"]
            if highest < int(said, 16):
                problem = f"the highest one drawn is {highest:016x}, the record has {said}"
                self._findings.add(event, "lots", problem)

    def _compare(
        self, event: int, now: Situation, units: pa.Array, stored: Decided, again: Decided
    ) -> None:
        self.replayed += len(units)
        differs = (
            (again.actions != stored.actions)
            | (again.randomised != stored.randomised)
            | (again.groups != stored.groups)
        )
        for one, two in (
            (again.scores, stored.scores), (again.probabilities, stored.probabilities),
        ):  # fmt: skip
            if self._findings.beyond_rounding(difference(one, two)):
                other = one.view(np.int64) != two.view(np.int64)
                differs |= other if other.ndim == 1 else other.any(axis=1)
        names = [action.name for action in now.actions]
        for row in np.flatnonzero(differs)[:NAMED]:
            ours, theirs = float(again.scores[row]), float(stored.scores[row])
            problem = (
                f"a replay gives {names[again.actions[row]]} with score {ours!r}, "
                f"the record has {names[stored.actions[row]]} with {theirs!r}"
            )
            self._findings.add(event, f"unit {units[row].as_py()!r}", problem)


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Say whether two records of prices agree up to rounding."""
    prices, others = ({**each["prices"], "": each["budget_price"] or 0.0} for each in (one, two))
    return (
        one["prices_in"] == two["prices_in"]
        and prices.keys() == others.keys()
        and all(
            abs(price - others[name]) <= ROUNDING * max(1.0, abs(price))
            for name, price in prices.items()
        )
    )

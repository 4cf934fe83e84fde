"""Events: who did what, when and why, each chained by hashes to its records and the event before.

Each hash is taken over a canonical text: JSON without spaces, in which a number has one spelling
and keys keep their order, since the order of features is part of their meaning. Changing one byte
of a record changes its hash, which is part of its event's, which is part of every later one's.
"""

import contextlib
import getpass
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from typing import Any, Literal, TypeVar

from seqbatch.campaign.record.current_situation import Situation, after, situation
from seqbatch.campaign.record.earlier_campaign import Document, fingerprint
from seqbatch.campaign.record.store import (
    Change,
    Event,
    Fold,
    OutcomeChunk,
    Reader,
    StateRecord,
    Tombstone,
    UnitChunk,
)
from seqbatch.core import arguments
from seqbatch.errors import DAMAGED, EVENTS_MISSING, InvalidSpecError, StoreError

Record = Event | UnitChunk | OutcomeChunk | StateRecord | Tombstone
#: How the name of whoever acts is known.
Identity = Literal["token", "account", "given"]
R = TypeVar("R", Event, UnitChunk, OutcomeChunk, StateRecord, Tombstone)
#: Bytes of a hash: 160 bits are out of reach of a search for two records with the same one.
SIZE = 20
#: How many situations are remembered.
MOST = 32

_lock = threading.Lock()
_remembered: dict[str, Situation] = {}


def canonical(value: Any) -> str:
    """Return plain values as canonical JSON.

    >>> canonical({"b": 0.1, "a": ["é", None, True]})
    '{"b":0.1,"a":["é",null,true]}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(*parts: bytes) -> str:
    """Return the hash of several byte strings, including where each one ends."""
    made = blake2b(digest_size=SIZE)
    for part in parts:
        # Hash the length first: "ab", "c" must differ from "a", "bc".
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


def sealed(campaign: str, record: R) -> R:
    """Return a record of any kind with its hash filled in."""
    return replace(record, hash=hash_of(campaign, record))


def hash_of(campaign: str, record: Record) -> str:
    """Return the hash that a record of any kind should have."""
    match record:
        case Event():
            facts: Any = {"campaign": campaign, **_facts(record)}
            return digest(canonical(facts).encode())
        case UnitChunk():
            place = [record.chunk, record.event, record.wave, record.first, record.count]
            facts = ["units", campaign, *place]
            return digest(canonical(facts).encode(), record.given, record.decided)
        case OutcomeChunk():
            facts = ["outcomes", campaign, record.chunk, record.event, record.count]
            return digest(canonical(facts).encode(), record.rows)
        case StateRecord():
            facts = ["state", campaign, record.event, record.wave]
            return digest(canonical(facts).encode(), record.content)
        case Tombstone():
            return digest(canonical(["tombstone", campaign, _facts(record)]).encode())


def _facts(record: Event | Tombstone) -> dict[str, Any]:
    facts = {name: value for name, value in vars(record).items() if name != "hash"}
    if not facts.get("version", True):
        # Early versions did not record which one wrote an event.
        del facts["version"]
    return facts


def rows_hash(hashes: list[str]) -> str:
    """Return the hash over the hashes of an event's records."""
    return digest(*(each.encode() for each in hashes))


@cache
def software() -> str:
    """Return the version of seqbatch that is running."""
    return version("seqbatch")


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def this_user() -> str:
    """Return the name of the user who runs this process, if known."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


@dataclass(frozen=True, kw_only=True)
class Logbook:
    """Signs events.

    Parameters
    ----------
    who
        The user who acts.
    known_by
        How that name is known: by the "token" of a call of the service, by the "account" that runs
        the process, or as "given" by the caller.
    clock
        Returns the current time. The order of events never depends on it.
    """

    who: str
    known_by: Identity = "given"
    clock: Callable[[], datetime] = utc_now

    def __post_init__(self) -> None:
        arguments.text("who", self.who)

    def now(self) -> datetime:
        """Return the time for an event written now."""
        return self.clock().astimezone(UTC)

    def write(
        self,
        change: Change,
        now: Situation | None,
        *,
        kind: str,
        why: str = "",
        counts: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        rows: list[str] | None = None,
        at: datetime | None = None,
    ) -> Event:
        """Add the event that ends a change, and return it.

        Parameters
        ----------
        change
            The transaction.
        now
            The campaign's state before it; None for the first event.
        kind, why, counts, payload
            See :class:`~seqbatch.campaign.record.store.Event`.
        rows
            The hashes of the records added with it, in order.
        at
            The time; the current time if None.
        """
        event = Event(
            sequence=1 if now is None else now.sequence + 1,
            kind=kind,
            at=self._time(at),
            who=self.who,
            why=arguments.text("reason", why),
            counts=counts or {},
            payload=payload or {},
            rows_hash=rows_hash(rows or []),
            previous="" if now is None else now.hash,
            version=software(),
            hash="",
        )
        event = sealed(change.name, event)
        stands = after(now, event)
        change.add_event(event, folded(stands))
        # Cached by the event's hash; if the transaction fails, this entry is never used.
        _remember(stands)
        return event

    def bury(self, change: Change, now: Situation, *, why: str) -> Tombstone:
        """Delete a campaign, and return its tombstone."""
        before = change.last_tombstone()
        tombstone = Tombstone(
            campaign=change.number,
            name=change.name,
            events=now.sequence,
            units=now.assigned,
            last=now.hash,
            at=self._time(),
            who=self.who,
            why=arguments.text("reason", why),
            previous="" if before is None else before.hash,
            hash="",
        )
        tombstone = sealed(change.name, tombstone)
        change.bury(tombstone)
        return tombstone

    def _time(self, at: datetime | None = None) -> str:
        return (at or self.now()).isoformat(timespec="microseconds")


def folded(now: Situation) -> Fold:
    """Return the fold of the campaign's current state, to store with its events."""
    content = canonical(now.plain())
    return Fold(event=now.sequence, content=content, hash=_fold_hash(now.hash, content))


def _fold_hash(newest: str, content: str) -> str:
    """Return a hash that ties a fold to its newest event."""
    return digest(newest.encode(), content.encode())


def current(reader: Reader) -> Situation:
    """Return a campaign's current state, from its fold or, if that does not match, its events.

    An event's hash identifies all events up to it, and so the state after them. This process
    caches the state by that hash, and reads again only after a process has added an event.
    """
    sequence, newest, folded_event = reader.newest()
    if folded_event > sequence:
        raise StoreError(
            f"campaign {reader.name}: the newest event is {sequence}, but event {folded_event} "
            "was recorded: the last events are missing. Restore them, or verify the campaign.",
            code=EVENTS_MISSING,
        )
    known = _remembered.get(newest)
    if known is None or known.sequence != sequence:
        known = _read(reader, newest)
        _remember(known)
    return known


def _read(reader: Reader, newest: str) -> Situation:
    fold = reader.fold()
    if fold is not None and fold.hash == _fold_hash(newest, fold.content):
        # A fold stored by another version may lack fields that this version needs.
        with contextlib.suppress(KeyError, TypeError, InvalidSpecError):
            plain = json.loads(fold.content)
            if plain["history"] is not None:
                plain["history"] = _history(reader, plain["history"])
            found = Situation.of(plain)
            if found.hash == newest:
                return found
    return situation(reader.events())


def _history(reader: Reader, known: str) -> Document:
    """Return the history in the first event, whose fingerprint is known."""
    found: Document | None = reader.event(1).payload.get("history")
    if found is None or fingerprint(found) != known:
        raise StoreError(
            f"campaign {reader.name}: the sums of the earlier campaign, in event 1, were changed. "
            "Restore the database; verify the campaign to list all damage.",
            code=DAMAGED,
        )
    return found


def _remember(now: Situation) -> None:
    with _lock:
        while len(_remembered) >= MOST:
            _remembered.pop(next(iter(_remembered)))
        _remembered[now.hash] = now

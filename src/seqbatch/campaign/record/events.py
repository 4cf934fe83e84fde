"""Hashes that tie every event to its rows and to the event before it.

Each hash is taken over a canonical text: JSON without spaces, in which a number has one spelling
and keys keep their order, since the order of features is part of their meaning. Changing one byte
of a record changes its hash, which is part of its event's, which is part of every later one's.
"""

import json
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from seqbatch.campaign.contract import Event, OutcomeChunk, StateRecord, UnitChunk

SIZE = 20


def canonical(value: Any) -> str:
    """Return plain values as the one text that stands for them.

    >>> canonical({"b": 0.1, "a": ["é", None, True]})
    '{"b":0.1,"a":["é",null,true]}'
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(*parts: bytes) -> str:
    """Return the hash of several byte strings, each told apart from its neighbours."""
    made = blake2b(digest_size=SIZE)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.hexdigest()


def units_hash(campaign: str, chunk: UnitChunk) -> str:
    """Return the hash of a chunk of units."""
    facts = ["units", campaign, chunk.chunk, chunk.event, chunk.wave, chunk.first, chunk.count]
    return digest(canonical(facts).encode(), chunk.given, chunk.decided)


def outcomes_hash(campaign: str, chunk: OutcomeChunk) -> str:
    """Return the hash of a chunk of outcome rows."""
    facts = ["outcomes", campaign, chunk.chunk, chunk.event, chunk.count]
    return digest(canonical(facts).encode(), chunk.rows)


def state_hash(campaign: str, state: StateRecord) -> str:
    """Return the hash of a state."""
    facts = ["state", campaign, state.event, state.wave]
    return digest(canonical(facts).encode(), state.content)


def rows_hash(hashes: list[str]) -> str:
    """Return the hash of an event's records, by theirs."""
    return digest(*(each.encode() for each in hashes))


def event_hash(campaign: str, event: Event) -> str:
    """Return the hash of an event, of its rows and of all that came before."""
    facts = {
        "campaign": campaign,
        "sequence": event.sequence,
        "kind": event.kind,
        "at": event.at,
        "who": event.who,
        "why": event.why,
        "counts": event.counts,
        "payload": event.payload,
        "rows": event.rows_hash,
        "previous": event.previous,
    }
    return digest(canonical(facts).encode())


def sealed(campaign: str, event: Event) -> Event:
    """Return the event with its own hash filled in."""
    return replace(event, hash=event_hash(campaign, event))

"""Recognise erased units by keyed hashes of their ids, which is all that is left of the ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from secrets import randbits

import numpy as np

from seqbatch.campaign.decide.draws import marks
from seqbatch.campaign.files.column_values import Texts
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.store import Event, Reader
from seqbatch.core.arrays import Bools


@dataclass(frozen=True)
class ErasedUnits:
    """The erased units of a campaign.

    Parameters
    ----------
    name, salt
        The campaign's name, and the number from which the hashes' key is made.
    marks
        The hashes of the erased ids.
    """

    name: str
    salt: int
    marks: frozenset[str]

    @classmethod
    def of(cls, reader: Reader, now: Situation) -> "ErasedUnits":
        """Read the marks of all erasures; they share the salt of the first."""
        payloads = [reader.event(event).payload for event in now.erasures]
        salt = payloads[0]["salt"] if payloads else randbits(62)
        return cls(now.name, salt, frozenset(mark for own in payloads for mark in own["marks"]))

    def marks_of(self, units: Texts) -> list[str]:
        """Return the marks of ids: 128 bits each."""
        if not len(units):
            return []
        words = marks(self.salt, self.name, units)
        return [f"{high:016x}{low:016x}" for high, low in words.tolist()]

    def among(self, units: Texts) -> Bools:
        """Return which units were erased."""
        if not self.marks:
            return np.zeros(len(units), dtype=np.bool_)
        found: Iterable[bool] = (mark in self.marks for mark in self.marks_of(units))
        return np.fromiter(found, dtype=np.bool_, count=len(units))


def records_of(events: Sequence[Event]) -> dict[int, str]:
    """Return the hash over the records that each event should have: its own, or an erasure's."""
    made = {event.sequence: event.rows_hash for event in events}
    for event in events:
        if event.kind == "erase":
            made |= {int(number): each for number, each in event.payload.get("records", {}).items()}
    return made


def unprovable(events: Sequence[Event]) -> frozenset[int]:
    """Return the events whose estimates were learned from units that were erased since."""
    found = (event.payload.get("states", ()) for event in events if event.kind == "erase")
    return frozenset(each for own in found for each in own)


def erased_numbers(events: Sequence[Event]) -> frozenset[int]:
    """Return the numbers of all erased units."""
    found = (event.payload.get("numbers", ()) for event in events if event.kind == "erase")
    return frozenset(each for own in found for each in own)


def changed_records(events: Sequence[Event]) -> frozenset[int]:
    """Return the events of whose records some were erased."""
    found = (event.payload.get("records", {}) for event in events if event.kind == "erase")
    return frozenset(int(each) for own in found for each in own)

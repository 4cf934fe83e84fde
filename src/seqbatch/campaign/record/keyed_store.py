"""Read a masked campaign with its key: as if it were unmasked, while nothing is stored."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from seqbatch.campaign.record.events import rows_hash, sealed, software
from seqbatch.campaign.record.store import Event, Fold, Reader, Store
from seqbatch.campaign.spec.masking import Key

#: The reason in the event that only this view has.
WHY = "shown to the holder of the key alone; the record has no such event"


class KeyedReader:
    """A reader with one more event, which unmasks the campaign; all else is the store's.

    Parameters
    ----------
    reader, last
        The reader of the masked campaign, and the event that unmasks it.
    """

    def __init__(self, reader: Reader, last: Event) -> None:
        self._reader, self._last = reader, last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def newest(self) -> tuple[int, str, int]:
        """Return the added event's number and hash; there is no fold of it."""
        return self._last.sequence, self._last.hash, 0

    def last_event(self) -> Event:
        """Return the added event."""
        return self._last

    def event(self, sequence: int) -> Event:
        """Return one event by its number."""
        return self._last if sequence == self._last.sequence else self._reader.event(sequence)

    def events(self) -> list[Event]:
        """Return all events and the added one."""
        return [*self._reader.events()[: self._last.sequence - 1], self._last]

    def fold(self) -> Fold | None:
        """Return None: the stored fold has codes."""
        return None


def unmasking(name: str, last: Event, key: Key, looks: Sequence[dict[str, Any]]) -> Event:
    """Return an event after the last one that unmasks a campaign, with the looks."""
    event = Event(
        sequence=last.sequence + 1, kind="unmask", at=last.at, who=last.who, why=WHY, counts={},
        payload={"codes": key.codes, "control": key.control, "salt": key.salt, "looks": [*looks]},
        rows_hash=rows_hash([]), previous=last.hash, version=software(), hash="",
    )  # fmt: skip
    return sealed(name, event)


class KeyedStore:
    """A store in which one masked campaign is read with its key.

    Parameters
    ----------
    store
        The store.
    before, last
        The newest event, and the one that unmasks the campaign after it. Newer ones are left out.
    """

    def __init__(self, store: Store, before: Event, last: Event) -> None:
        self._store, self.before, self._last = store, before, last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def read(self, name: str) -> Iterator[Reader]:
        """Open one consistent view of the campaign, with the names of its actions."""
        with self._store.read(name) as reader:
            yield cast("Reader", KeyedReader(reader, self._last))

"""Writing events: who, when, why, and the hashes that tie them together."""

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from seqbatch.campaign import chain
from seqbatch.campaign.contract import Change, Event


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def this_user() -> str:
    """Return who runs this process, as far as the machine knows."""
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
        Whose doing it is.
    clock
        Tells the time. Order never depends on it.
    """

    who: str
    clock: Callable[[], datetime] = utc_now

    def write(
        self,
        change: Change,
        *,
        sequence: int,
        previous: str,
        kind: str,
        why: str = "",
        counts: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        rows: list[str] | None = None,
    ) -> Event:
        """Add the event that ends a change, and return it."""
        event = chain.sealed(
            change.name,
            Event(
                sequence=sequence,
                kind=kind,
                at=self.clock().astimezone(UTC).isoformat(timespec="microseconds"),
                who=self.who,
                why=why,
                counts=counts or {},
                payload=payload or {},
                rows_hash=chain.rows_hash(rows or []),
                previous=previous,
                hash="",
            ),
        )
        change.add_event(event)
        return event

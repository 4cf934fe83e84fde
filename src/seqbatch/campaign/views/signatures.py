"""Signatures: who signed, how the name is known, what it means, and what it covers."""

from collections.abc import Sequence
from dataclasses import dataclass

from seqbatch.campaign.record.store import Event
from seqbatch.document import Table

#: How the name of a signature is known, in words.
KNOWN_BY = {
    "token": "owner of a token of the service",
    "account": "account that ran the command",
    "given": "name given by the caller, not checked",
}


@dataclass(frozen=True)
class Signature:
    """A signature: it covers all events before its own.

    Parameters
    ----------
    event
        The number of its event.
    at, who
        When it was made, in UTC, and the name.
    known_by
        How the name is known: by a "token" of the service, by the "account" that ran the command,
        or as "given" by the caller, which was not checked.
    meaning
        What the signature means.
    covers
        The hash of the event before it, which depends on all earlier ones.
    """

    event: int
    at: str
    who: str
    known_by: str
    meaning: str
    covers: str

    def text(self) -> str:
        """Return the signature in one sentence, without a full stop."""
        covered = "event 1" if self.event == 2 else f"events 1 to {self.event - 1}"
        return (
            f"{self.who} ({KNOWN_BY[self.known_by]}) on {self.at[:16].replace('T', ' ')} UTC: "
            f'"{self.meaning}" (event {self.event}, covers {covered})'
        )


def signatures(events: Sequence[Event]) -> tuple[Signature, ...]:
    """Return the signatures among the events, in order."""
    return tuple(
        Signature(
            event.sequence, event.at, event.who, event.payload["known_by"],
            event.payload["meaning"], event.previous,
        )
        for event in events
        if event.kind == "sign"
    )  # fmt: skip


def signature_table(events: Sequence[Event]) -> Table | None:
    """Return the signatures as a table; None without any."""
    rows = [
        (one.event, one.at[:16].replace("T", " "), one.who, KNOWN_BY[one.known_by], one.meaning,
         f"1 to {one.event - 1}")
        for one in signatures(events)
    ]  # fmt: skip
    words = ("when (UTC)", "who", "how the name is known", "meaning", "covers events")
    return Table("Signatures", ("event", *words), rows, words=words) if rows else None

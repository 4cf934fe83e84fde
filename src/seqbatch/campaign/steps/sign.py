"""Sign a campaign: an event with a name, how that name is known, and what the signature means."""

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.errors import InvalidArgumentError

#: The longest meaning of a signature.
LONGEST = 500


def sign(store: Store, name: str, logbook: Logbook, *, meaning: str, why: str) -> Event:
    """Sign everything that is recorded so far, in one transaction.

    The event's hash depends on all earlier events, so the signature covers them.
    """
    said = meaning.strip()
    if not said or len(said) > LONGEST or not said.isprintable():
        rule = f"a text of 1 to {LONGEST} characters on one line"
        raise InvalidArgumentError("meaning", rule, repr(meaning[:LONGEST]))
    with store.change(name) as change:
        payload = {"meaning": said, "known_by": logbook.known_by}
        return logbook.write(change, current(change), kind="sign", why=why, payload=payload)

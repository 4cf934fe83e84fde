"""Take a look at a masked campaign with its key: the verdict is recorded, the numbers are not."""

from dataclasses import dataclass, field
from pathlib import Path

from seqbatch.campaign.decide.keyed_looks import KeyedLook, keyed_looks
from seqbatch.campaign.decide.stopping import LookTaken
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps.unmask import require_masked
from seqbatch.errors import CampaignStateError, StoreError


@dataclass(frozen=True)
class Looked:
    """The look of a key holder after a wave.

    Parameters
    ----------
    wave
        The last closed wave.
    verdict
        What all may know: "continue", "stop" or "planned end".
    event, hash
        The number and hash of the event.
    taken
        The look, for the committee alone; None while all outcomes are equal.
    """

    wave: int
    verdict: str
    event: int
    hash: str
    taken: LookTaken | None = field(repr=False)


def look(store: Store, name: str, logbook: Logbook, *, key: str | Path, why: str) -> Looked:
    """Take the look after the last closed wave, in one transaction; repeat it if it was taken."""
    found = Key.read(key)
    with store.change(name) as change:
        now = current(change)
        require_masked(now, found)
        _require_planned(now)
        events = change.events()
        made = keyed_looks(change, events, found)
        before = [event for event in events if event.kind == "look"]
        _require_same(made, before, found)
        if not now.unlooked:
            return _answer(now, made, before)
        due = made[-1]
        payload = {"wave": due.wave, "verdict": due.verdict, "seal": due.seal(found)}
        event = logbook.write(change, now, kind="look", why=why, payload=payload, rows=[])
        return Looked(due.wave, due.verdict, event.sequence, event.hash, due.taken)


def _require_planned(now: Situation) -> None:
    if not now.spec.stopping.looks:
        raise CampaignStateError(
            f"campaign {now.name} declares no looks by the holder of its key.", code="no-looks"
        )
    if not now.closes:
        raise CampaignStateError(
            f"campaign {now.name}: no wave is closed, so there is nothing to look at.",
            code="no-wave-closed",
        )


def _require_same(made: list[KeyedLook], events: list[Event], key: Key) -> None:
    """Refuse a campaign whose earlier looks are not those of its rows."""
    for one, event in zip(made, events, strict=False):
        if one.seal(key) != event.payload["seal"]:
            raise StoreError(
                f"campaign {key.campaign}: the look of event {event.sequence} is not the one that "
                "its rows give. Nothing was changed. Verify the campaign with its key.",
                code="damaged",
            )


def _answer(now: Situation, made: list[KeyedLook], events: list[Event]) -> Looked:
    """Return the look after the last closed wave again."""
    last = now.wave - 1
    if not events or events[-1].payload["wave"] != last:
        raise CampaignStateError(
            f"campaign {now.name}: there is no look after wave {last}. It was closed without "
            "learning from it, or the campaign was continued without the look.",
            code="no-look",
        )
    event = events[-1]
    return Looked(last, event.payload["verdict"], event.sequence, event.hash, made[-1].taken)

"""Bring a masked campaign's key back: its actions get their names again."""

from pathlib import Path

from seqbatch.campaign.design.masking import Key
from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.steps.amending import require_reason
from seqbatch.errors import CampaignStateError, InvalidArgumentError


def unmask(store: Store, name: str, logbook: Logbook, *, key: str | Path, why: str) -> Event:
    """Unmask a campaign in one transaction; the names are on record from then on."""
    require_reason(why)
    found = Key.read(key)
    with store.change(name) as change:
        now = current(change)
        if not now.key:
            raise CampaignStateError(f"campaign {name} is not masked.")
        if now.unmasked:
            raise CampaignStateError(f"campaign {name} was unmasked already.")
        if found.fingerprint != now.key:
            raise InvalidArgumentError(
                "key",
                f"the one that was made with the campaign (fingerprint {now.key})",
                f"that of campaign {found.campaign!r} (fingerprint {found.fingerprint})",
            )
        return logbook.write(
            change,
            now,
            kind="unmask",
            why=why,
            payload={"codes": found.codes, "control": found.control, "salt": found.salt},
            rows=[],
        )

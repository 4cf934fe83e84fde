"""Unmask a campaign with its key: the actions get their names back."""

from pathlib import Path

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps.amend import require_reason
from seqbatch.errors import CampaignStateError, InvalidArgumentError


def unmask(store: Store, name: str, logbook: Logbook, *, key: str | Path, why: str) -> Event:
    """Unmask a campaign in one transaction; its event records the names."""
    require_reason(why)
    found = Key.read(key)
    with store.change(name) as change:
        now = current(change)
        if not now.key:
            raise CampaignStateError(f"campaign {name} is not masked.", code="not-masked")
        if now.unmasked:
            raise CampaignStateError(f"campaign {name} is already unmasked.", code="unmasked")
        if found.fingerprint != now.key:
            raise InvalidArgumentError(
                "key",
                f"the one that was made with the campaign (fingerprint {now.key})",
                f"the key of campaign {found.campaign!r} (fingerprint {found.fingerprint})",
            )
        return logbook.write(
            change,
            now,
            kind="unmask",
            why=why,
            payload={"codes": found.codes, "control": found.control, "salt": found.salt},
            rows=[],
        )

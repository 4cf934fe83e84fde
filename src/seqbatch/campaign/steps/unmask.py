"""Unmask a campaign with its key: the actions get their names back."""

from pathlib import Path
from typing import Any

from seqbatch.campaign.decide.keyed_looks import keyed_looks
from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Event, Store
from seqbatch.campaign.spec.masking import Key
from seqbatch.campaign.steps.amend import require_reason
from seqbatch.errors import CampaignStateError


def unmask(store: Store, name: str, logbook: Logbook, *, key: str | Path, why: str) -> Event:
    """Unmask a campaign in one transaction; its event records the names and the looks."""
    require_reason(why)
    found = Key.read(key)
    with store.change(name) as change:
        now = current(change)
        require_masked(now, found)
        payload: dict[str, Any] = {
            "codes": found.codes,
            "control": found.control,
            "salt": found.salt,
        }
        if now.spec.stopping.looks:
            looks = [one.taken for one in keyed_looks(change, change.events(), found)]
            payload["looks"] = [one.plain() for one in looks if one is not None]
        return logbook.write(change, now, kind="unmask", why=why, payload=payload, rows=[])


def require_masked(now: Situation, key: Key) -> None:
    """Refuse a campaign that has no codes, and the key of another one."""
    if not now.spec.masked or not now.key:
        raise CampaignStateError(f"campaign {now.name} is not masked.", code="not-masked")
    if now.unmasked:
        raise CampaignStateError(f"campaign {now.name} is already unmasked.", code="unmasked")
    key.require_fitting(now.key)

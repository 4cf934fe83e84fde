"""Delete a campaign that has no outcomes yet: a trial run, or one that was declared wrongly."""

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Store, Tombstone
from seqbatch.campaign.steps.amending import require_reason
from seqbatch.errors import CampaignStateError


def delete(store: Store, name: str, logbook: Logbook, *, why: str) -> Tombstone:
    """Delete a campaign in one transaction; its tombstone stays, and its name is free again."""
    require_reason(why)
    with store.change(name) as change:
        now = current(change)
        _, chunks = change.next_chunks()
        if chunks:
            raise CampaignStateError(
                f"campaign {name} has rows of outcomes on record, and what was seen is not deleted "
                "afterwards. Abort it, and create another under a new name."
            )
        return logbook.bury(change, now, why=why)

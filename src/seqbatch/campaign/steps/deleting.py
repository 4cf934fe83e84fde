"""Delete a campaign that has no outcomes yet: a trial run, or one that was declared wrongly."""

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Store, Tombstone
from seqbatch.campaign.steps.amending import require_reason
from seqbatch.display import counted
from seqbatch.errors import CampaignStateError


def delete(store: Store, name: str, logbook: Logbook, *, why: str, force: bool) -> Tombstone:
    """Delete a campaign in one transaction; its tombstone stays, and its name is free again."""
    require_reason(why)
    with store.change(name) as change:
        now = current(change)
        _, chunks = change.next_chunks()
        if chunks or (now.closes and now.spec.rows == "elsewhere"):
            advice = "Abort it, and create" if now.condition == "open" else "Create"
            raise CampaignStateError(
                f"campaign {name} has rows of outcomes on record, and what was seen is not deleted "
                f"afterwards. {advice} another under a new name."
            )
        if now.assigned and not force:
            raise CampaignStateError(
                f"campaign {name} has assigned {counted(now.assigned, 'unit')}. Once it is "
                "deleted, nothing tells any more who got which action. Where none of it was acted "
                "on, delete it all the same: force=True.",
                commands=[("delete", name, "--force", "--reason", why)],
            )
        return logbook.bury(change, now, why=why)

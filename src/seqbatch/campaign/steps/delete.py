"""Delete a campaign without outcomes, such as a trial run or one with a wrong spec."""

from seqbatch.campaign.record.events import Logbook, current
from seqbatch.campaign.record.store import Store, Tombstone
from seqbatch.campaign.steps.amend import require_reason
from seqbatch.display import counted
from seqbatch.errors import CampaignStateError, Remedy


def delete(store: Store, name: str, logbook: Logbook, *, why: str, force: bool) -> Tombstone:
    """Delete a campaign in one transaction; its tombstone stays, and its name is free again."""
    require_reason(why)
    with store.change(name) as change:
        now = current(change)
        _, chunks = change.next_chunks()
        if chunks or (now.closes and now.spec.rows == "elsewhere"):
            advice = "Abort it, and create" if now.condition == "open" else "Create"
            raise CampaignStateError(
                f"campaign {name} has recorded outcomes, so it cannot be deleted. {advice} "
                "another under a new name.",
                code="has-outcomes",
            )
        if now.assigned and not force:
            raise CampaignStateError(
                f"campaign {name} has assigned {counted(now.assigned, 'unit')}. Deleting it "
                "also deletes the record of which unit got which action. If no unit has "
                "received its action yet, you can still delete it",
                Remedy("delete", force=True, reason=why),
                code="has-units",
            )
        return logbook.bury(change, now, why=why)

"""Real experiments in waves, as a state machine whose every step is kept and can be replayed."""

from seqbatch.campaign.campaign import Campaign
from seqbatch.campaign.rehearsal.rehearsal import rehearse
from seqbatch.campaign.steps.assign import Assigned
from seqbatch.campaign.steps.close import Closed
from seqbatch.campaign.steps.look import Looked
from seqbatch.campaign.steps.recorded import Recorded
from seqbatch.campaign.steps.unblind import Unblinded
from seqbatch.campaign.steps.validate import Validated, validate
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.rehearsal import Rehearsal
from seqbatch.campaign.views.seal import Seal
from seqbatch.campaign.views.status import Status
from seqbatch.campaign.views.verify_checks import Verified

__all__ = [
    "Assigned", "Campaign", "Closed", "Findings", "Looked", "Recorded", "Rehearsal", "Seal",
    "Status", "Unblinded", "Validated", "Verified", "rehearse", "validate",
]  # fmt: skip

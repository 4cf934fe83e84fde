"""Real experiments in waves, as a state machine whose every step is kept and can be replayed."""

from seqbatch.campaign.campaign import Campaign
from seqbatch.campaign.steps.assigning import Assigned
from seqbatch.campaign.steps.closing import Closed
from seqbatch.campaign.steps.recording import Recorded
from seqbatch.campaign.steps.validating import Validated, validate
from seqbatch.campaign.views.findings import Findings
from seqbatch.campaign.views.sealing import Seal
from seqbatch.campaign.views.status import Status
from seqbatch.campaign.views.verified import Verified

__all__ = [
    "Assigned", "Campaign", "Closed", "Findings", "Recorded", "Seal", "Status", "Validated",
    "Verified", "validate",
]  # fmt: skip

"""Real experiments in waves, as a state machine whose every step is kept and can be replayed."""

from typing import TYPE_CHECKING

from seqbatch.public_names import on_first_use

if TYPE_CHECKING:
    from seqbatch.campaign.campaign import Campaign as Campaign
    from seqbatch.campaign.rehearsal.rehearsal import rehearse as rehearse
    from seqbatch.campaign.steps.assign import Assigned as Assigned
    from seqbatch.campaign.steps.close import Closed as Closed
    from seqbatch.campaign.steps.erase import Erased as Erased
    from seqbatch.campaign.steps.look import Looked as Looked
    from seqbatch.campaign.steps.recorded import Recorded as Recorded
    from seqbatch.campaign.steps.unblind import Unblinded as Unblinded
    from seqbatch.campaign.steps.validate import Validated as Validated
    from seqbatch.campaign.steps.validate import validate as validate
    from seqbatch.campaign.views.findings import Findings as Findings
    from seqbatch.campaign.views.rehearsal import Rehearsal as Rehearsal
    from seqbatch.campaign.views.seal import Seal as Seal
    from seqbatch.campaign.views.status import Status as Status
    from seqbatch.campaign.views.verify_checks import Verified as Verified

#: The module of each public name, imported on first use: a status needs few of them.
MODULES = {
    "Assigned": "steps.assign",
    "Campaign": "campaign",
    "Closed": "steps.close",
    "Findings": "views.findings",
    "Looked": "steps.look",
    "Recorded": "steps.recorded",
    "Rehearsal": "views.rehearsal",
    "Seal": "views.seal",
    "Status": "views.status",
    "Erased": "steps.erase",
    "Unblinded": "steps.unblind",
    "Validated": "steps.validate",
    "Verified": "views.verify_checks",
    "rehearse": "rehearsal.rehearsal",
    "validate": "steps.validate",
}

__all__ = [
    "Assigned", "Campaign", "Closed", "Erased", "Findings", "Looked", "Recorded", "Rehearsal",
    "Seal", "Status", "Unblinded", "Validated", "Verified", "rehearse", "validate",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type-checker would take every misspelt name for one of these
    __getattr__ = on_first_use(__name__, MODULES)

"""Planning an experiment: how many batches, of which sizes, and at what cost."""

from typing import TYPE_CHECKING

from seqbatch.public_names import on_first_use

if TYPE_CHECKING:
    from seqbatch.planning.campaign_plan import CampaignGain as CampaignGain
    from seqbatch.planning.campaign_plan import CampaignPlan as CampaignPlan
    from seqbatch.planning.campaign_plan import WaveRow as WaveRow
    from seqbatch.planning.campaign_plan import plan_campaign as plan_campaign
    from seqbatch.planning.campaign_terms import CampaignTerms as CampaignTerms
    from seqbatch.planning.detection import Detection as Detection
    from seqbatch.planning.detection import PlannedLook as PlannedLook
    from seqbatch.planning.plan import plan as plan
    from seqbatch.planning.plan import replan as replan
    from seqbatch.planning.result import Plan as Plan
    from seqbatch.planning.result_rows import Candidate as Candidate
    from seqbatch.planning.result_rows import Row as Row
    from seqbatch.planning.result_rows import Sensitivity as Sensitivity
    from seqbatch.planning.tradeoff import Trade as Trade
    from seqbatch.planning.tradeoff import TradePoint as TradePoint
    from seqbatch.planning.unit_sample import Sample as Sample

#: The module of each public name, imported on first use: plans need compiled kernels.
MODULES = {
    "CampaignGain": "campaign_plan",
    "CampaignPlan": "campaign_plan",
    "CampaignTerms": "campaign_terms",
    "Candidate": "result_rows",
    "Detection": "detection",
    "Plan": "result",
    "PlannedLook": "detection",
    "Row": "result_rows",
    "Sample": "unit_sample",
    "Sensitivity": "result_rows",
    "Trade": "tradeoff",
    "TradePoint": "tradeoff",
    "WaveRow": "campaign_plan",
    "plan": "plan",
    "plan_campaign": "campaign_plan",
    "replan": "plan",
}

__all__ = [
    "CampaignGain",
    "CampaignPlan",
    "CampaignTerms",
    "Candidate",
    "Detection",
    "Plan",
    "PlannedLook",
    "Row",
    "Sample",
    "Sensitivity",
    "Trade",
    "TradePoint",
    "WaveRow",
    "plan",
    "plan_campaign",
    "replan",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type-checker would take every misspelt name for one of these
    __getattr__ = on_first_use(__name__, MODULES)

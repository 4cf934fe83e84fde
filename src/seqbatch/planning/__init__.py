"""Planning an experiment: how many batches, of which sizes, and at what cost."""

from seqbatch.planning.campaign_plan import CampaignGain, CampaignPlan, WaveRow, plan_campaign
from seqbatch.planning.campaign_terms import CampaignTerms
from seqbatch.planning.detection import Detection, PlannedLook
from seqbatch.planning.plan import plan, replan
from seqbatch.planning.result import Plan
from seqbatch.planning.result_rows import Candidate, Row, Sensitivity
from seqbatch.planning.tradeoff import Trade, TradePoint
from seqbatch.planning.unit_sample import Sample

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

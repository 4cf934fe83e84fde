"""How the numbers were made, in plain words with references, and what they take for granted."""

from seqbatch.campaign.deciding.pooling_plan import planned_waves
from seqbatch.campaign.views.measure import percent
from seqbatch.campaign.views.reporting.document import Heading, Items, Part, Section
from seqbatch.campaign.views.reporting.material import Material
from seqbatch.campaign.views.reporting.placed import placed
from seqbatch.display import Table, counted

REFERENCES = (
    "Han, Zhou, Hu, Blanchet, Glynn, Ye and Zhou (first version 2020), Sequential batch learning "
    "in finite-action linear contextual bandits: the campaign in waves.",
    "Luedtke and van der Laan (2016), Statistical inference for the mean outcome under a possibly "
    "non-unique optimal treatment strategy: weights that keep intervals right.",
    "Zhang, Janson and Murphy (2020), Inference for batched bandits; Hadad, Hirshberg, Zhan, Wager "
    "and Athey (2021), Confidence intervals for policy evaluation in adaptive experiments: why "
    "ordinary intervals fail here, and what to do.",
    "Lan and DeMets (1983), Discrete sequential boundaries for clinical trials; Maurer and Bretz "
    "(2013), Multiple testing in group sequential trials using graphical approaches: looks.",
    "Dunnett (1955), A multiple comparison procedure for comparing several treatments with a "
    "control; Holm (1979), A simple sequentially rejective multiple test procedure.",
)


def methods(of: Material) -> Section:
    """Return how it was computed."""
    level = percent(of.found.level)
    said = [
        "Every unit's chance of each action was logged before its outcome was known. Units that "
        "were unlikely to get their action count for more, so that everybody is represented; a "
        "model of the outcomes takes out what the features explain. Either of the two is enough "
        "for the estimate to be right (it is called doubly robust).",
        "A campaign that learns gives later waves to those who did well, by luck too. So each "
        "wave is estimated for itself, and its part in the whole was fixed before its outcomes "
        "were seen. That is what keeps the intervals right.",
        f"Intervals have {level} coverage by Student's t. Where several actions are compared, the "
        "intervals on the first screen are wider, so that all of them hold at once "
        f"({_together(of)}). "
        "Many p-values at once are corrected by Holm's method.",
        "The gain of the rule to run next is judged on the last wave, each fifth of it by a rule "
        "made without it; it is approximate.",
    ]
    if of.found.missing == "by features":
        said.append("Outcomes that are missing are made up for by the features of their units.")
    parts: list[Part] = [
        *said,
        *placed(of.found)["methods"],
        Heading("References"),
        Items(REFERENCES),
    ]
    return Section("methods", "How the numbers were made", parts)


def _together(of: Material) -> str:
    """Return the method by which several comparisons cover together; see Asking.lifts."""
    fixed = all(wave.share is not None for wave in planned_waves(of.events))
    plain = fixed and not of.now.spec.eligible and not of.found.stopping.looks
    return "Dunnett" if plain else "Bonferroni"


def assumed(of: Material) -> Section:
    """Return what was assumed, and what would break it."""
    title = "What was assumed, and what would break it"
    rows = list(of.found.assumptions)
    if not rows:
        return Section("assumed", title, ["Nothing was estimated, so nothing is assumed."])
    columns = ("assumed", "what would break it")
    table = Table(f"{counted(len(rows), 'assumption')}", columns, rows, words=columns)
    return Section("assumed", title, [table])

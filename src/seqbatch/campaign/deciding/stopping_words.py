"""What a look says, and what looking without a rule costs, in words."""

from seqbatch.campaign.deciding.pooling_plan import information, planned
from seqbatch.campaign.deciding.stopping import LookTaken
from seqbatch.campaign.record.situation import Situation
from seqbatch.display import number
from seqbatch.inference import error_of_looks
from seqbatch.inference.intervals import quantile

#: Looks that are counted. Each takes an integral; further ones add little to what is said.
MOST_LOOKS = 12


def inflated(now: Situation, *, waves: int) -> float | None:
    """Return the error of a single test after each of so many waves, instead of alpha.

    None where a rule was declared, and where there is one look. Of more than 12 waves the first
    12 are counted, and the error is larger.
    """
    rule = now.spec.stopping
    if rule.rule != "none" or waves < 2:
        return None
    times = sorted(set(information(planned(now).shares)[:waves]))[:MOST_LOOKS]
    return error_of_looks(times, bound=quantile(rule.alpha / 2, float("inf")))


def unlooked(now: Situation) -> list[str]:
    """Say why the declared rule is not applied while the campaign is masked."""
    if now.spec.stopping.rule == "none" or not now.masked:
        return []
    return [
        f"no look: the declared rule ({now.spec.stopping.rule}) compares with the control, which "
        "is in the key alone. It is applied when a wave is closed after the campaign was unmasked, "
        "and nothing is spent until then"
    ]


def look_text(look: LookTaken) -> str:
    """Say where the boundary is, where the statistic is, and what the rule says."""
    places = "; ".join(
        f"{one.action} {number(one.statistic, 3)} "
        f"(boundary {'none yet' if one.boundary is None else number(one.boundary, 3)}"
        + ("" if one.futility is None else f", futility {number(one.futility, 3)}")
        + ")"
        for one in look.actions
    )
    return (
        f"The declared rule ({look.rule}, alpha {look.alpha:g}) after wave {look.wave}: "
        f"{look.verdict}. Statistics: {places or 'none'}."
    )


def inflation_text(error: float) -> str:
    """Say what looking after every wave costs where no rule was declared."""
    return (
        "No stopping rule was declared: to stop at the first wave after which a single test speaks "
        f"would be wrong in at least {error:.1%} of campaigns in which nothing differs."
    )

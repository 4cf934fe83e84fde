"""A proposal of sizes, in words: what was learned, what is proposed, and what it should save."""

from collections.abc import Sequence

from seqbatch.campaign.record.situation import Situation
from seqbatch.display import number
from seqbatch.planning.replanning import WORTH, Proposal

#: An effect that was misjudged by less looks as it was planned.
ALIKE = 1.25


def proposal_text(proposal: Proposal, unit: str | None) -> str:
    """Say what a proposal rests on and what it should save."""
    return f"{effect_text(proposal)} {_sizes(proposal, unit)}"


def effect_text(proposal: Proposal) -> str:
    """Say what the outcomes so far show of the effect, beside what was stated."""
    effect, stated = proposal.effect, proposal.stated_effect
    shown = f"{_short(effect.mean)} a unit, {_short(effect.low)} to {_short(effect.high)}"
    if stated is None:
        return f"The best actions look better than random ones by {shown} (90%)."
    times = effect.mean / stated
    if 1 / ALIKE < times < ALIKE:
        return f"The effect looks as planned: {shown} (90%); planned was {_short(stated)}."
    much = f"{_short(times)} times" if times > 1 else f"{_short(100 * times)}% of"
    return f"The effect looks {much} what was planned: {shown} (90%); planned was {_short(stated)}."


def _sizes(proposal: Proposal, unit: str | None) -> str:
    """Say which sizes are proposed, and why."""
    planned = _listed(proposal.planned)
    of = "" if unit is None else f" {unit}"
    if not proposal.changes:
        return (
            f"The waves to come stay as they are, {planned} units: nothing else is expected to "
            f"save {WORTH:.0%} of the {_short(proposal.regret)}{of} still to be lost."
        )
    kept = proposal.sizes == proposal.planned
    ways = f"waves to come of {_listed(proposal.sizes)} units"
    ways += ", as planned" if kept else f" instead of {planned}"
    if proposal.explored:
        ways += f", with {proposal.explored:.0%} of the next one at random, to learn more"
    return (
        f"Proposed: {ways}. That is expected to save {_short(proposal.saving)} ± "
        f"{_short(proposal.saving_error)}{of} of the {_short(proposal.regret)} still to be lost "
        "against the best action for each unit."
    )


def adopted_text(proposal: Proposal) -> str:
    """Return the reason of an adoption where nobody gives one."""
    return f"{effect_text(proposal)} Expected to save {_short(proposal.saving)}."


def why_none(now: Situation) -> str:
    """Say why there is nothing to adopt."""
    if not now.spec.grid.adaptive:
        return "Its spec does not say adaptive = true in [grid]."
    if now.proposal is not None:
        return "The planned sizes were found to be best."
    return (
        "One is made when a wave is closed, where two waves or more are to come and the outcomes "
        "tell enough; it ends when it is adopted, units are assigned or anything is amended."
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def _short(value: float) -> str:
    return number(value, 2) if abs(value) < 100 else number(value, 3)

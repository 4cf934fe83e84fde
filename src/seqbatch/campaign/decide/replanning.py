"""Propose sizes for the remaining waves from the outcomes so far."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from seqbatch.campaign.record.current_situation import Situation
from seqbatch.campaign.spec.measure import Measure
from seqbatch.core import Statistics
from seqbatch.display import number
from seqbatch.errors import InvalidArgumentError
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.proposal import Proposal
from seqbatch.planning.replanning import WORTH, independent, of_columns, propose
from seqbatch.planning.request import MOST_MISSING, EffectLaw, conduct_of, law_of, model_of, several

# ----------------------------------------------------------------------
# Propose sizes for the remaining waves if the spec is adaptive.


#: With more parameters than this in total, a proposal would take too long.
MOST_PARAMETERS = 400


def proposed(now: Situation, state: Any) -> Proposal | None:
    """Propose sizes for the waves after the one being closed; None if there is no proposal.

    Parameters
    ----------
    now
        The campaign's state when the wave was closed.
    state
        The policy's state after the wave.
    """
    ahead = now.sizes[now.wave :]
    if not now.spec.grid.adaptive or len(ahead) < 2 or not hasattr(state, "evidence"):
        return None
    known = reduce(Statistics.merge, state.evidence)
    if not (known.gram[:, 0, 0].sum() > 0 and (known.squares > 0).any()):
        return None
    known = of_columns(known, independent(known.gram.sum(axis=0)))
    if known.cells * known.dim > MOST_PARAMETERS:
        return None
    wanted = now.spec.grid.plan or {}
    noises = several("noise", wanted.get("noise", 1.0))
    law = law_of(wanted.get("effect"), wanted.get("effect_spread"), noises)
    try:
        return propose(
            _model(now, known, wanted, law),
            law,
            seen=now.assigned,
            statistics=known,
            sizes=ahead,
            outstanding=_outstanding(now, wanted.get("delay", 0)),
            min_batch=wanted.get("min_batch"),
            max_batch=wanted.get("max_batch"),
            # Use a different seed for every wave.
            seed=wanted.get("seed", 0) + now.wave,
        )
    except InvalidArgumentError:
        # There are fewer outcomes than parameters: too few for a proposal.
        return None


def with_sums(now: Situation, *, units: int, observed: int) -> Situation:
    """Return the state of a wave being closed whose rows are elsewhere: sums bring its counts."""
    return replace(now, units=(*now.units[:-1], units), observed=observed)


def _model(now: Situation, known: Statistics, wanted: dict[str, Any], law: EffectLaw) -> Model:
    """Return the planning model assumed before the first outcome, without redundant columns."""
    actions, noises = len(now.active), several("noise", wanted.get("noise", 1.0))
    model = model_of(actions, known.dim - 1, None, law, noises, wanted.get("kappa"))
    delay = wanted.get("delay", 0)
    missing = _missing(now, int(known.count.sum()), delay, wanted.get("missing", 0.0))
    conduct = conduct_of(actions, now.spec.randomised, now.floor, missing, delay)
    return replace(model, conduct=conduct)


def _missing(now: Situation, known: int, delay: int, planned: float) -> float:
    """Return the share of missing outcomes so far; the planned one if none are due.

    Late outcomes are not missing: only those of the waves before the last `delay` ones are due.
    """
    due = sum(
        units
        for wave, units in enumerate(now.units, start=1)
        if wave <= now.wave - delay and wave not in now.skipped
    )
    if not due:
        return planned
    # Outcomes of the wave being closed that have arrived early say nothing about those due.
    early = now.observed if delay and now.wave not in now.skipped else 0
    return min(max(1 - (known - early) / due, 0.0), MOST_MISSING)


def _outstanding(now: Situation, delay: int) -> list[tuple[int, float]]:
    """Return the last waves whose outcomes are late: their units, and the random share."""
    found = []
    for wave in range(max(now.wave - delay, 0) + 1, now.wave + 1):
        units = 0 if wave in now.skipped else now.units[wave - 1]
        early = now.observed if wave == now.wave else 0
        # Nothing is known in time for the first waves.
        share = 1.0 if wave <= 1 + delay else now.spec.randomised
        found.append((max(units - early, 0), share))
    return found


# ----------------------------------------------------------------------
# Text for a proposal: the evidence, the sizes, and the expected savings.


#: If the estimated and the planned effect differ by less than this factor, they count as equal.
ALIKE = 1.25


def proposal_text(proposal: Proposal, measure: Measure) -> str:
    """Describe the evidence for a proposal, and the expected savings."""
    return f"{effect_text(proposal, measure)} {_sizes(proposal, measure)}"


def effect_text(proposal: Proposal, measure: Measure) -> str:
    """Compare the effect in the outcomes so far with the planned effect."""
    effect, stated = proposal.effect, proposal.stated_effect
    mean, low, high = (
        _short(measure.scale * one) for one in (effect.mean, effect.low, effect.high)
    )
    shown = f"{mean} {measure.column}, {low} to {high}"
    if stated is None:
        return f"The best actions look better than random ones by {shown} (90%)."
    times, planned = effect.mean / stated, _short(measure.scale * stated)
    if 1 / ALIKE < times < ALIKE:
        return f"The effect looks as planned: {shown} (90%); planned was {planned}."
    much = f"{_short(times)} times" if times > 1 else f"{_short(100 * times)}% of"
    return f"The effect looks {much} what was planned: {shown} (90%); planned was {planned}."


def _sizes(proposal: Proposal, measure: Measure) -> str:
    """Describe the proposed sizes, and why they are proposed."""
    planned, lost = _listed(proposal.planned), measure.quantity(_short(proposal.regret))
    if not proposal.changes:
        return (
            f"The remaining waves keep their sizes, {planned} units: no other sizes are "
            f"expected to save {WORTH:.0%} of the {lost} still to be lost."
        )
    kept = proposal.sizes == proposal.planned
    ways = f"remaining waves of {_listed(proposal.sizes)} units"
    ways += ", as planned" if kept else f" instead of {planned}"
    if proposal.explored:
        ways += f", with {proposal.explored:.0%} of the next one at random, to learn more"
    return (
        f"Proposed: {ways}. That is expected to save {_short(proposal.saving)} ± "
        f"{_short(proposal.saving_error)} of the {lost} still to be lost against the best action "
        "for each unit."
    )


def adopted_text(proposal: Proposal, measure: Measure) -> str:
    """Return the default reason for adopting a proposal."""
    saved = measure.quantity(_short(proposal.saving))
    return f"{effect_text(proposal, measure)} Expected to save {saved}."


def why_none(now: Situation) -> str:
    """Explain why there is no proposal to adopt."""
    if not now.spec.grid.adaptive:
        return "Its spec does not have adaptive = true in [grid]."
    if now.proposal is not None:
        return "The planned sizes were found to be best."
    return (
        "A proposal is made when a wave is closed, if at least two waves remain and the "
        "outcomes show enough; it expires when you adopt it, assign units or amend the campaign."
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def _short(value: float) -> str:
    return number(value, 2) if abs(value) < 100 else number(value, 3)

"""How much of the variance each wave of a campaign may contribute, by what was fixed in advance.

As planned at creation, while nobody changed the plan. Where the calendar decides, and after an
amendment, a wave's share is set by its units and their probabilities, as they were assigned: by
anything but its outcomes. Sizes that were adopted from a proposal follow from outcomes, and the
shares stay those of the sizes declared before: with them the waves' statistics are independent
standard normals in fixed proportions, whatever the sizes became.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from seqbatch.campaign.record.situation import Situation, history
from seqbatch.campaign.record.store import Event
from seqbatch.inference import PlanOfShares, WaveSummary, plan_of_shares, share_when_assigned
from seqbatch.inference.contrasts import Contrast
from seqbatch.inference.summary import Segment

#: Where nothing keeps the probabilities of actions up, waves are planned as if this did.
LEAST = 0.001

#: A smaller share is that of rounding.
NOTHING = 1e-6


@dataclass(frozen=True)
class PlannedWave:
    """What was fixed of a wave before its outcomes.

    Parameters
    ----------
    share
        Its share of the variance by the plan at creation; None where that no longer holds.
    rest
        The sum of n/D over the waves that were still planned after it, D being that of one action.
    active
        The numbers of the actions that were given.
    """

    share: float | None
    rest: float
    active: tuple[int, ...]


def planned(then: Situation) -> PlanOfShares:
    """Return the shares of all waves by a campaign's sizes, policy, floor and randomised share."""
    actions = max(len(then.active), 2)
    uniform, floor = kept_up(then)
    kind = "thompson" if then.policy["kind"] == "ThompsonSampling" else "greedy"
    return plan_of_shares(
        then.declared, actions=actions, randomised=uniform, floor=floor, policy=kind
    )


def kept_up(then: Situation) -> tuple[float, float]:
    """Return the share of units assigned uniformly, and the floor for all others, in later waves.

    Where neither is declared, what inference plans with in their place.
    """
    actions = max(len(then.active), 2)
    uniform, floor = then.spec.randomised, then.floor
    if then.policy["kind"] == "UniformRandom":
        uniform = 1.0
    uniform += (1 - uniform) * float(then.policy.get("epsilon", 0.0))
    if uniform / actions + (1 - uniform) * floor < LEAST:
        return 0.0, LEAST
    return uniform, floor


def planned_waves(events: Iterable[Event]) -> tuple[PlannedWave, ...]:
    """Return what was fixed of each wave so far, the open one included."""
    found: list[PlannedWave] = []
    created: Situation | None = None
    before: Situation | None = None
    for then in history(events):
        created = created or then
        if before is not None and then.wave > before.wave:
            found.append(_wave(created, before))
        before = then
    assert created is not None
    assert before is not None
    return (*found, _wave(created, before)) if not before.finished else tuple(found)


def _wave(created: Situation, then: Situation) -> PlannedWave:
    plan, place = planned(then), then.wave - 1
    same = (then.declared, then.floor, then.active) == (
        created.declared, created.floor, created.active
    )  # fmt: skip
    information = [size / cost for size, cost in zip(plan.sizes, plan.costs, strict=True)]
    return PlannedWave(
        share=plan.shares[place] if same and not then.spec.grid.calendar else None,
        rest=sum(information[place + 1 :]),
        active=then.active,
    )


def shares_of(
    contrast: Contrast,
    summaries: Sequence[WaveSummary],
    waves: Sequence[PlannedWave],
    segment: Segment | None = None,
) -> tuple[float, ...]:
    """Return the share of each wave for a contrast; they add up to 1 when all waves are in.

    Parameters
    ----------
    contrast
        A mean or a lift.
    summaries, waves
        The waves that count, and what was fixed of each.
    segment
        The units that are asked about; None for all of them.
    """
    shares: list[float] = []
    for summary, wave in zip(summaries, waves, strict=True):
        if wave.share is not None:
            shares.append(wave.share)
            continue
        tally = summary.overall if segment is None else summary.segments.get(segment)
        if tally is None:
            shares.append(0.0)
            continue
        units = tally.units
        cost = float(tally.costs[summary.place(contrast)] / units)
        usable = np.isfinite(cost) and sum(shares) < 1 - NOTHING
        shares.append(
            share_when_assigned(
                spent=shares, units=units, cost=cost, planned_rest=wave.rest / contrast.arms
            )
            if usable
            else 0.0
        )
    return tuple(shares)


def information(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the fraction of the information that is in after each wave, at most 1."""
    return tuple(min(total, 1.0) for total in accumulate(shares))

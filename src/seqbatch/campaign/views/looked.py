"""Lifts of a campaign that could have been stopped early: their intervals allow for every look."""

from collections.abc import Sequence
from dataclasses import replace

from seqbatch.campaign.deciding.pooling_plan import NOTHING, information
from seqbatch.campaign.views.answers import Asking
from seqbatch.campaign.views.findings import Answer, StoppingAnswer
from seqbatch.inference import Lift, boundaries
from seqbatch.inference.looks import repeated

#: Boundaries further out, of looks that spend next to nothing, are as good as this one.
FARTHEST = 8.0


def allowing_for_looks(
    asking: Asking, lifts: Sequence[Answer], stopping: StoppingAnswer
) -> tuple[Answer, ...]:
    """Return lifts whose intervals cover together, at all looks of the declared rule.

    An interval for a single look covers too seldom where a campaign stops when it looks good. By
    Bonferroni over the actions; without a look the lifts stay as they are.
    """
    if not stopping.looks:
        return tuple(lifts)
    return tuple(
        _repeated(asking, Lift(place), lift, stopping, parts=len(lifts))
        for place, lift in enumerate(lifts, start=1)
    )


def _repeated(
    asking: Asking, contrast: Lift, lift: Answer, stopping: StoppingAnswer, *, parts: int
) -> Answer:
    if not lift.interval.known:
        return lift
    waves = asking.data.waves
    at = dict(zip(waves, information(asking.shares(contrast)), strict=True))
    looked = sorted({at[w] for w in (*(one.wave for one in stopping.looks), waves[-1]) if w in at})
    times = [time for before, time in zip((0.0, *looked), looked, strict=False)
             if time > before + NOTHING]  # fmt: skip
    tail = (1 - asking.level) / 2 / parts
    bound = min(boundaries(times, rule=stopping.rule, alpha=tail)[-1], FARTHEST)
    return replace(lift, together=repeated(lift.interval, bound, level=asking.level))

"""The two charts of a decision: lifts with their intervals, and the same wave by wave."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seqbatch.campaign.views.findings_text import says
from seqbatch.campaign.views.report_pictures import (
    SHAPE_WORDS,
    Bar,
    WavePoint,
    by_wave,
    intervals,
)
from seqbatch.display import percent
from seqbatch.document import Picture

if TYPE_CHECKING:
    from seqbatch.campaign.views.findings import Answer, Findings


def lift_pictures(found: "Findings") -> list[Picture]:
    """Return both charts; the second needs two waves, and none is drawn of unknown lifts."""
    drawn = [lift for lift in found.lifts if lift.interval.known]
    several = [lift for lift in drawn if len(lift.waves) > 1]
    return [
        *([lifts_picture(found, drawn)] if drawn else []),
        *([waves_picture(found, several)] if several else []),
    ]


def lifts_picture(found: "Findings", lifts: "Sequence[Answer]") -> Picture:
    """Draw the lifts over the control, the best at the top."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    lifts = sorted(lifts, key=lambda lift: sign * lift.interval.estimate)
    bars = [
        Bar.of(measure, lift.action, lift.around, says=says(found, lift.around)) for lift in lifts
    ]
    title = f"{measure.column}, compared with {found.control}"
    shapes = [SHAPE_WORDS[kind] for kind in SHAPE_WORDS if any(bar.says == kind for bar in bars)]
    return Picture(
        lambda: intervals(bars, title=title, zero=found.control),
        f"{title} ({measure.wanted}), with {percent(found.level)} intervals: "
        f"{'; '.join(bar.words for bar in bars)}.",
        f"Difference from {found.control} in {measure.head}; {measure.wanted}. Solid lines are "
        f"{percent(found.level)} intervals, the dashed line is no difference; {', '.join(shapes)}.",
    )


#: The most actions whose lifts are drawn by wave.
MOST_DRAWN = 4


def waves_picture(found: "Findings", lifts: "Sequence[Answer]") -> Picture:
    """Draw the lift of each action in each wave, with its interval."""
    measure = found.measure
    sign = 1 if measure.direction == "min" else -1
    best = sorted(lifts, key=lambda lift: sign * lift.interval.estimate)[:MOST_DRAWN]
    points = [
        WavePoint(lift.action, one.wave, *(measure.scale * value for value in
                  (one.interval.estimate, one.interval.low, one.interval.high)))
        for lift in best
        for one in lift.waves
    ]  # fmt: skip
    told = "; ".join(
        f"{lift.action}: "
        + ", ".join(f"{measure.signed(one.interval)} in wave {one.wave}" for one in lift.waves)
        for lift in best
    )
    title = f"{measure.head}, compared with {found.control}"
    return Picture(
        lambda: by_wave(points, title=measure.column),
        f"{title}, wave by wave: {told}.",
        f"Difference from {found.control} in {measure.head} in each wave alone, with "
        f"{percent(found.level)} intervals; the dashed line is no difference.",
    )

"""A plan as a chart: regret against the number of batches, and the grid over time."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from seqbatch.chart import (
    Axis,
    BarMark,
    Chart,
    LineMark,
    Panel,
    PanelMark,
    PointMark,
    TextMark,
    ring,
)
from seqbatch.display import counted
from seqbatch.pictures import GREY, INK, policy_colour
from seqbatch.planning.result_text import assumptions, chosen, rounded, with_error

if TYPE_CHECKING:
    from seqbatch.planning.result import Plan
    from seqbatch.planning.result_rows import Row


WIDTH = 600.0
#: With more rows than this, the errors next to the points, or all numbers, would overlap.
MOST_ERRORS, MOST_LABELS = 8, 14


def draw(plan: "Plan") -> Chart:
    """Draw both panels under a title with the assumptions."""
    title = (
        f"{counted(plan.units, 'unit')}, {plan.model.actions} actions: "
        f"{counted(plan.batches, 'batch')}, with {type(plan.policy).__name__}"
    )
    words = textwrap.wrap(" ".join(assumptions(plan)), 100)
    return Chart(rows=_panels(plan), title=title, subtitle=words)


def panels(plan: "Plan") -> Chart:
    """Draw both panels without a title, for a document that has its own text."""
    return Chart(rows=_panels(plan))


def _panels(plan: "Plan") -> list[list[Panel]]:
    return [[_costs(plan)], [_timeline(plan)]]


@dataclass(frozen=True)
class RegretPoint:
    """The regret with one number of batches, with its errors, bound and labels."""

    batches: int | None
    regret: float
    low: float
    high: float
    bound: float
    short: str
    label: str

    @classmethod
    def of(cls, plan: "Plan", row: "Row") -> "RegretPoint":
        """Return a row's point."""
        worst = plan.contexts == "adversarial"
        middle = row.rate if worst else row.regret
        if math.isnan(middle):
            # Without a guarantee, everything may be lost.
            middle = plan.request.promises.most_lost
        half = 0.0 if worst else 2 * row.error
        label = rounded(middle) if worst else with_error(middle, row.error)
        # A logarithmic axis cannot show values below 0.
        low = max(middle - half, middle / 2)
        return cls(row.batches, middle, low, middle + half, row.lower_bound, rounded(middle), label)


def _costs(plan: "Plan") -> Panel:
    worst = plan.contexts == "adversarial"
    points = [RegretPoint.of(plan, row) for row in plan.rows]
    online = RegretPoint.of(plan, plan.online)
    numbers = [
        value
        for one in [*points, online]
        for value in (one.low, one.high, None if math.isnan(one.bound) else one.bound)
    ]
    x = Axis.categories([str(one.batches) for one in points], title="number of batches M")
    y = Axis.logarithmic(numbers, title=_title(plan), margin=1.3)
    colour = policy_colour(type(plan.policy).__name__ if worst else "SBPE")
    middles = [place + 0.5 for place in range(len(points))]
    line = [(middle, one.regret) for middle, one in zip(middles, points, strict=True)]
    marks: list[PanelMark] = [*_online(online, x), LineMark(points=line, colour=colour, width=1)]
    for middle, one in zip(middles, points, strict=True):
        if not math.isnan(one.bound):
            half = min(15 * len(points) / WIDTH, 0.4)
            ends = [(middle - half, one.bound), (middle + half, one.bound)]
            marks.append(LineMark(points=ends))
        marks.append(LineMark(points=[(middle, one.low), (middle, one.high)], colour=colour))
        marks.append(PointMark(x=middle, y=one.regret, colour=colour))
        if one.batches == plan.batches:
            marks.append(ring(middle, one.regret))
        if len(points) <= MOST_LABELS:
            text = one.label if len(points) <= MOST_ERRORS else one.short
            marks.append(TextMark(x=middle, y=one.regret, dx=9, dy=-10, text=text, size=11))
    title, subtitle = _heading(plan)
    return Panel(x=x, y=y, marks=marks, width=WIDTH, height=320, title=title, subtitle=subtitle)


def _online(one: RegretPoint, x: Axis) -> list[PanelMark]:
    """Draw fully online as a line across the panel, with its error."""
    across = x.low, x.high
    return [
        BarMark(x=across, y=(one.low, one.high), colour=GREY, opacity=0.2),
        LineMark(points=[(end, one.regret) for end in across], colour=GREY, width=1, dash="6 4"),
        # At the lower left: the points there are far above the line.
        TextMark(
            x=x.low, y=one.regret, dx=4, dy=16, text=f"fully online {one.label}", colour="#555555"
        ),
    ]


def _title(plan: "Plan") -> str:
    noises = sorted({noise for _, noise in plan.model.scenarios})
    scale = " or ".join(f"{noise:g}" for noise in noises)
    kind = "guaranteed" if plan.contexts == "adversarial" else "expected"
    what = "simple" if plan.choosing else kind
    return f"{what} regret, in units of reward (noise: sd {scale})"


def _heading(plan: "Plan") -> tuple[str, Sequence[str]]:
    """Return the title, and the subtitle that explains errors, bounds and the ring."""
    worst = plan.contexts == "adversarial"
    words = [f"ring: {chosen(plan)}"]
    if any(not math.isnan(row.lower_bound) for row in plan.rows):
        words.insert(0, "black lines: lower bound for any method with as many batches")
    if worst:
        return "Guaranteed regret (Theorem 1)", ["; ".join(words)]
    what = "Simple regret" if plan.choosing else "Expected regret under pure exploitation"
    return what, [
        "±: one standard error of the simulation; bars and the grey band: two;",
        "; ".join(words),
    ]


def _timeline(plan: "Plan") -> Panel:
    sizes = plan.grid.sizes
    x = Axis.numbers(
        [plan.seen, plan.seen + plan.units], title="units", count=6, padding=0.0, grid=True
    )
    names = [f"batch {number}" for number in range(1, len(sizes) + 1)]
    marks: list[PanelMark] = []
    colour = policy_colour(type(plan.policy).__name__)
    for place, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True)):
        start, stop = plan.seen + end - size, plan.seen + end
        marks.append(BarMark(x=(start, stop), y=(place + 0.16, place + 0.84), colour=colour))
        text = f"{size:,} units ({size / plan.units:.1%})"
        # Inside a wide bar, otherwise to its right; a narrow last bar has room only on its left.
        if size > plan.units / 3:
            at, anchor, dx = start + size / 2, "middle", 0
        elif stop > plan.seen + 0.7 * plan.units:
            at, anchor, dx = start, "end", -5
        else:
            at, anchor, dx = stop, "start", 5
        marks.append(
            TextMark(x=at, y=place + 0.5, dx=dx, dy=4, text=text, size=11, anchor=anchor,
                     colour=INK if dx else "white")
        )  # fmt: skip
    return Panel(
        x=x, y=Axis.categories(names, down=True), marks=marks, width=WIDTH,
        height=24.0 * len(sizes), title="When batches end",
    )  # fmt: skip

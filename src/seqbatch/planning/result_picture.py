"""A plan as a chart: regret against the number of batches, and the grid over time."""

import math
import textwrap
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from seqbatch.display import counted
from seqbatch.pictures import GREY, INK, fitted, policy_colour
from seqbatch.planning.result_text import assumptions, chosen, rounded, with_error

if TYPE_CHECKING:
    import altair as alt

    from seqbatch.planning.result import Plan
    from seqbatch.planning.result_rows import Row


WIDTH = 600
#: With more rows than this, the errors next to the points, or all numbers, would overlap.
MOST_ERRORS, MOST_LABELS = 8, 14


def draw(plan: "Plan") -> "alt.TopLevelMixin":
    """Draw both panels under a title with the assumptions."""
    import altair as alt

    titled: alt.TopLevelMixin = panels(plan).properties(
        title=alt.TitleParams(
            f"{counted(plan.units, 'unit')}, {plan.model.actions} actions: "
            f"{counted(plan.batches, 'batch')}, with {type(plan.policy).__name__}",
            subtitle=textwrap.wrap(" ".join(assumptions(plan)), 100),
            anchor="start",
            fontSize=15,
            offset=16,
        )
    )
    return titled


def panels(plan: "Plan") -> Any:
    """Draw both panels without a title, for a document that has its own text."""
    import altair as alt

    return alt.vconcat(_costs(plan), _timeline(plan), spacing=24).configure_view(stroke=None)


def _costs(plan: "Plan") -> Any:
    import altair as alt

    worst = plan.contexts == "adversarial"
    values = [_values(plan, row) for row in plan.rows]
    online = _values(plan, plan.online)
    shown = [row[name] for row in [*values, online] for name in ("low", "high", "bound")]
    x = alt.X("batches:O", title="number of batches M", axis=alt.Axis(labelAngle=0))
    y: dict[str, Any] = {"title": _axis(plan), **fitted(shown, margin=1.3)}
    base = alt.Chart({"values": values}).encode(x=x)
    labels = base.mark_text(align="left", dx=9, dy=-13, fontSize=11).encode(
        y=alt.Y("regret:Q", **y), text="label:N" if len(values) <= MOST_ERRORS else "short:N"
    )
    colour = policy_colour(type(plan.policy).__name__ if worst else "SBPE")
    layers = [
        *_online(online, y),
        base.mark_tick(color=INK, thickness=2, width=30, opacity=1).encode(y=alt.Y("bound:Q", **y)),
        base.mark_line(color=colour, strokeWidth=1, opacity=0.5).encode(y=alt.Y("regret:Q", **y)),
        base.mark_rule(color=colour, strokeWidth=2).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_point(color=colour, filled=True, opacity=1, size=50).encode(
            y=alt.Y("regret:Q", **y)
        ),
        base.transform_filter("datum.chosen")
        .mark_point(color=INK, size=240, strokeWidth=2, opacity=1)
        .encode(y=alt.Y("regret:Q", **y)),
        *([labels] if len(values) <= MOST_LABELS else []),
    ]
    return alt.layer(*layers).properties(
        width=WIDTH, height=320, title=alt.TitleParams(**_heading(plan), anchor="start")
    )


def _values(plan: "Plan", row: "Row") -> dict[str, Any]:
    worst = plan.contexts == "adversarial"
    middle = row.rate if worst else row.regret
    if math.isnan(middle):
        # Without a guarantee, everything may be lost.
        middle = plan.request.promises.most_lost
    half = 0.0 if worst else 2 * row.error
    return {
        "batches": row.batches,
        "regret": middle,
        # A logarithmic axis cannot show values below 0.
        "low": max(middle - half, middle / 2),
        "high": middle + half,
        "bound": None if math.isnan(row.lower_bound) else row.lower_bound,
        "chosen": row.batches == plan.batches,
        "short": rounded(middle),
        "label": rounded(middle) if worst else with_error(middle, row.error),
    }


def _online(row: dict[str, Any], y: dict[str, Any]) -> list[Any]:
    """Draw fully online as a line across the panel, with its error."""
    import altair as alt

    base = alt.Chart({"values": [row]})
    return [
        base.mark_rect(color=GREY, opacity=0.2).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        base.mark_rule(color=GREY, strokeDash=[6, 4]).encode(y=alt.Y("regret:Q", **y)),
        # At the lower left: the points there are far above the line.
        base.mark_text(align="left", dx=4, dy=14, color="#555555", x=0).encode(
            y=alt.Y("regret:Q", **y), text=alt.value(f"fully online {row['label']}")
        ),
    ]


def _axis(plan: "Plan") -> str:
    noises = sorted({noise for _, noise in plan.model.scenarios})
    scale = " or ".join(f"{noise:g}" for noise in noises)
    kind = "guaranteed" if plan.contexts == "adversarial" else "expected"
    return f"{kind} regret, in units of reward (noise: sd {scale})"


def _heading(plan: "Plan") -> dict[str, Any]:
    """Return the title; its subtitle explains errors, bounds and the ring."""
    worst = plan.contexts == "adversarial"
    words = [f"ring: {chosen(plan)}"]
    if any(not math.isnan(row.lower_bound) for row in plan.rows):
        words.insert(0, "black ticks: lower bound for any method with as many batches")
    if worst:
        return {"text": "Guaranteed regret (Theorem 1)", "subtitle": "; ".join(words)}
    return {
        "text": "Expected regret under pure exploitation",
        "subtitle": [
            "±: one standard error of the simulation; bars and the grey band: two;",
            "; ".join(words),
        ],
    }


def _timeline(plan: "Plan") -> Any:
    import altair as alt

    sizes = plan.grid.sizes
    values = [
        {
            "batch": f"batch {number}",
            "start": plan.seen + end - size,
            "end": plan.seen + end,
            "middle": plan.seen + end - size / 2,
            "size": size,
            "text": f"{size:,} units ({size / plan.units:.1%})",
        }
        for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True), start=1)
    ]
    y = alt.Y("batch:N", sort=None, title=None)
    base = alt.Chart({"values": values}).encode(y=y)
    colour = policy_colour(type(plan.policy).__name__)
    bars = base.mark_bar(color=colour, height=16, minBandSize=2).encode(
        x=alt.X("start:Q", title="units", axis=alt.Axis(format=",d", tickCount=6)), x2="end:Q"
    )
    # Inside a wide bar, otherwise to its right; a narrow last bar has room only on its left.
    wide, late = f"datum.size > {plan.units / 3}", f"datum.end > {plan.seen + 0.7 * plan.units}"
    inside = (
        base.transform_filter(wide).mark_text(color="white").encode(x="middle:Q", text="text:N")
    )
    left = (
        base.transform_filter(f"!({wide}) && {late}")
        .mark_text(align="right", dx=-5)
        .encode(x="start:Q", text="text:N")
    )
    right = (
        base.transform_filter(f"!({wide}) && !({late})")
        .mark_text(align="left", dx=5)
        .encode(x="end:Q", text="text:N")
    )
    return alt.layer(bars, inside, left, right).properties(
        width=WIDTH,
        height=24 * len(sizes) + 16,
        title=alt.TitleParams("When batches end", anchor="start"),
    )

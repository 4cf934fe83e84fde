"""A plan as a picture: regret against the number of batches, and the grid in time."""

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from seqbatch.colours import BLUE, GREY, ORANGE
from seqbatch.planning.words import counted, number

if TYPE_CHECKING:
    import altair as alt

    from seqbatch.planning.result import Plan


def draw(plan: "Plan") -> "alt.TopLevelMixin":
    """Draw both panels."""
    import altair as alt

    chart: Any = alt.vconcat(_costs(plan), _timeline(plan), spacing=24)
    titled: alt.TopLevelMixin = chart.properties(
        title=alt.TitleParams(
            f"{counted(plan.units, 'unit')}, {plan.model.actions} actions: "
            f"{counted(plan.batches, 'batch')}",
            anchor="start",
        )
    ).configure_view(stroke=None)
    return titled


def _costs(plan: "Plan") -> Any:
    import altair as alt

    worst = plan.contexts == "adversarial"
    values: list[dict[str, Any]] = [
        {
            "batches": row.batches,
            "regret": row.rate if worst else row.regret,
            "low": row.rate if worst else max(row.regret - 2 * row.error, row.regret / 2),
            "high": row.rate if worst else row.regret + 2 * row.error,
            "bound": None if math.isnan(row.lower_bound) else row.lower_bound,
            "chosen": row.batches == plan.batches,
            "label": number(row.rate if worst else row.regret),
        }
        for row in plan.rows
    ]
    # A logarithmic axis needs a foot above 0 for the bars to stand on.
    shown = [row["bound"] or row["low"] for row in values] + [row["low"] for row in values]
    floor = min([*shown, *([] if worst else [plan.online.regret])]) / 2
    x = alt.X("batches:O", title="number of batches M", axis=alt.Axis(labelAngle=0))
    scale = alt.Scale(type="log", domainMin=floor, nice=False)
    title = "guaranteed regret" if worst else "expected regret"
    base = alt.Chart({"values": values}).encode(x=x)
    shade = base.mark_bar(color=GREY, opacity=0.35, width=alt.RelativeBandSize(0.9)).encode(
        y=alt.Y("bound:Q", scale=scale, title=title),
        y2=alt.datum(floor),
        tooltip=[alt.Tooltip("bound:Q", title="no method can beat", format=",.0f")],
    )
    line = base.mark_line(color=BLUE, strokeWidth=2).encode(y=alt.Y("regret:Q", scale=scale))
    bars = base.mark_rule(color=BLUE).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    points = base.mark_point(filled=True, opacity=1).encode(
        y="regret:Q",
        color=alt.condition("datum.chosen", alt.value(ORANGE), alt.value(BLUE)),
        size=alt.condition("datum.chosen", alt.value(160), alt.value(60)),
        tooltip=[
            alt.Tooltip("batches:O", title="batches"),
            alt.Tooltip("regret:Q", title="regret", format=",.0f"),
        ],
    )
    labels = base.mark_text(dx=10, dy=-12, fontSize=10).encode(y="regret:Q", text="label:N")
    layers = [shade, line, bars, points, labels]
    if not worst:
        online = alt.Chart({"values": [{"online": plan.online.regret}]})
        layers += [
            online.mark_rule(color=GREY, strokeDash=[6, 4]).encode(
                y=alt.Y("online:Q", scale=scale)
            ),
            online.mark_text(
                align="left", dx=4, dy=-6, color="#555555", text="fully online", x=0
            ).encode(y=alt.Y("online:Q", scale=scale)),
        ]
    subtitle = "orange: recommended"
    if any(row["bound"] for row in values):
        subtitle = "grey: what no method with as many batches can beat; " + subtitle
    return alt.layer(*layers).properties(
        width=560, height=300, title=alt.TitleParams(title.capitalize(), subtitle=subtitle)
    )


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
    bars = base.mark_bar(color=BLUE, height=16, minBandSize=2).encode(
        x=alt.X("start:Q", title="units", axis=alt.Axis(format="~s")), x2="end:Q"
    )
    # Inside a wide bar, else to its right; a narrow last one has its room on the left.
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
        width=560, height=24 * len(sizes) + 16, title="When batches end"
    )

"""The status as a chart: each action's units and outcomes, wave by wave."""

from typing import TYPE_CHECKING, Any

from seqbatch.display import visible
from seqbatch.pictures import COLOURS

if TYPE_CHECKING:
    import altair as alt

    from seqbatch.campaign.views.status import Status

#: The chart's description in words.
PICTURED = "The share of units that got each action, and the mean outcome, wave by wave."


def picture(status: "Status") -> "alt.HConcatChart":
    """Draw the units of each action and their outcomes, wave by wave."""
    import altair as alt

    names = list(dict.fromkeys(visible(row.action) for row in status.actions))
    rows: list[dict[str, Any]] = [
        {
            "wave": row.wave,
            # An SVG cannot hold control characters.
            "action": visible(row.action),
            "place": names.index(visible(row.action)),
            "units": row.units,
            "mean": None if row.weighted is None else status.measure.scale * row.weighted,
        }
        for row in status.actions
    ]
    base = alt.Chart({"values": rows}).encode(
        color=alt.Color(
            "action:N",
            title=None,
            sort=names,
            scale=alt.Scale(
                domain=names, range=[COLOURS[n % len(COLOURS)] for n in range(len(names))]
            ),
            legend=alt.Legend(orient="top", labelLimit=320),
        )
    )
    shares = base.mark_bar().encode(
        x=alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "sum(units):Q", stack="normalize", title="share of units", axis=alt.Axis(format="%")
        ),
        order=alt.Order("place:Q", sort="descending"),
    )
    place = alt.X("wave:O", title="wave", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("action:N", sort=names)
    seen = base.transform_filter("isValid(datum.mean)")
    means = seen.mark_point(filled=True, size=60).encode(
        x=place,
        xOffset=offset,
        y=alt.Y("mean:Q", title=visible(status.measure.column), scale=alt.Scale(zero=False)),
    )
    chart: alt.HConcatChart = alt.hconcat(
        shares.properties(width=240, height=280, title="Assigned actions"),
        means.properties(width=360, height=280, title="Weighted means"),
    )
    return chart

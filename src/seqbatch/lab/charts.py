"""One look for all pictures: colours that every eye can tell apart, axes with units."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqbatch.colours import COLOURS

if TYPE_CHECKING:
    import altair as alt
    import polars as pl


def colour(field: str, names: Sequence[str], *, columns: int = 4) -> "alt.Color":
    """Return a colour for each name, in their order."""
    import altair as alt

    return alt.Color(
        f"{field}:N",
        title=None,
        sort=list(names),
        scale=alt.Scale(domain=list(names), range=list(COLOURS[: len(names)])),
        legend=alt.Legend(
            orient="top",
            columns=columns,
            labelLimit=320,
            symbolType="stroke",
            symbolOpacity=1,
            symbolStrokeWidth=3,
        ),
    )


def data(table: "pl.DataFrame") -> Any:
    """Return a table as a chart's own data, so that the picture needs nothing else."""
    return {"values": table.to_dicts()}


def band_and_line(
    table: "pl.DataFrame",
    *,
    x: "alt.X",
    y: str,
    low: str,
    high: str,
    colour: "alt.Color",
    title: str,
) -> "alt.LayerChart":
    """Draw means as lines with points, in bands."""
    import altair as alt

    base = alt.Chart(data(table)).encode(x=x, color=colour)
    band = base.mark_area(opacity=0.12).encode(
        y=alt.Y(f"{low}:Q", title=title, scale=alt.Scale(zero=False)), y2=f"{high}:Q"
    )
    line = base.mark_line(strokeWidth=2, point=True).encode(y=alt.Y(f"{y}:Q", title=title))
    both: alt.LayerChart = band + line
    return both

"""The common style of the experiments' charts: colours by policy, markers, dashes, legend.

Lines of one policy share its colour; dashes, then lighter shades, distinguish them. Every line has
its own marker. Lines drawn later are thinner and have smaller markers, which keeps coinciding lines
visible. The legend uses the same scales as the lines.
"""

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.output_files import atomically
from seqbatch.pictures import policy_colour

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

#: The last two, x and +, are paths, because Vega has no names for them.
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left", "M-1,-1L1,1M-1,1L1,-1", "M0,-1L0,1M-1,0L1,0",
)  # fmt: skip
DASHES = ((1, 0), (7, 3), (2, 2), (10, 3, 2, 3))
#: Measured at the legend's font size: the width of a letter, of a line sample, and a row's height.
LETTER, SAMPLE, ROW = 6.3, 44, 19


@dataclass(frozen=True)
class LineStyle:
    """The style of one line."""

    colour: str
    dash: tuple[int, ...]
    shape: str


def looks(lines: Mapping[str, str]) -> dict[str, LineStyle]:
    """Return the style of each line, given the name of its policy's class.

    >>> looks({"few": "SBPE", "many": "SBPE"})["many"]
    LineStyle(colour='#009E73', dash=(7, 3), shape='square')
    """
    colours = [policy_colour(policy) for policy in lines.values()]
    styles = {}
    for place, (line, colour) in enumerate(zip(lines, colours, strict=True)):
        shade, dash = divmod(colours[:place].count(colour), len(DASHES))
        # Dashes start at the policy's first position, so coinciding policies differ as well.
        pattern = DASHES[(colours.index(colour) + dash) % len(DASHES)]
        styles[line] = LineStyle(_lighter(colour, shade), pattern, SHAPES[place % len(SHAPES)])
    return styles


def _lighter(colour: str, steps: int) -> str:
    """Return the colour, halfway closer to white with each step."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{255 - (255 - part) // 2**steps:02X}" for part in parts)


def drawn(
    table: "pl.DataFrame",
    styles: Mapping[str, LineStyle],
    *,
    x: "alt.X",
    y: "alt.Y",
    interval: bool = False,
) -> Any:
    """Draw the column `line` of a table as lines with markers.

    With `interval`, each marker has a bar from the columns `low` to `high`, unless they are null.
    """
    import altair as alt

    # In the order of the styles, because later rows are drawn on top.
    order = {line: place for place, line in enumerate(styles)}
    rows = sorted(table.to_dicts(), key=lambda row: order[row["line"]])
    base = alt.Chart({"values": rows}).encode(x=x)
    layers = [base.mark_line().encode(y=y, **_line(styles))]
    if interval:
        bars = base.transform_filter("isValid(datum.low)").mark_errorbar(ticks={"width": 7})
        edge = y.copy()
        edge.shorthand = "low:Q"
        layers.append(bars.encode(y=edge, y2="high:Q", color=_line(styles)["color"]))
    layers.append(base.mark_point(opacity=1, strokeWidth=1.6).encode(y=y, **_point(styles)))
    return alt.layer(*layers)


def above_zero(summary: "pl.DataFrame") -> "pl.DataFrame":
    """Truncate intervals at a tenth of their mean, because a logarithmic axis never reaches 0."""
    import polars as pl

    known = pl.col("low").is_not_null()
    cut = pl.max_horizontal("low", pl.col("mean") / 10)
    return summary.with_columns(low=pl.when(known).then(cut))


def interval_words(summary: "pl.DataFrame") -> str:
    """Explain the bars and state their largest width: narrow bars hide behind their markers."""
    trials = max(summary["trials"])
    widths = ((summary["high"] - summary["mean"]) / summary["mean"].abs()).drop_nulls()
    if widths.is_empty():
        return f"{trials} trial; the error is unknown."
    return f"Mean of {trials} trials with its 95% interval (at most ±{max(widths):.1%})."


def pictured(
    panels: Any,
    styles: Mapping[str, LineStyle],
    *,
    title: str,
    subtitle: Sequence[str],
    width: int,
) -> "alt.TopLevelMixin":
    """Put a title, a subtitle and the legend above the panels."""
    import altair as alt

    chart: Any = alt.vconcat(legend(styles, width=width), panels, spacing=8)
    titled: alt.TopLevelMixin = chart.properties(
        title=alt.TitleParams(
            title, subtitle=list(subtitle), anchor="start", fontSize=15, subtitleFontSize=12
        )
    )
    return titled


def legend(styles: Mapping[str, LineStyle], *, width: int) -> Any:
    """Draw a sample of each line beside its name, with the scales of the lines."""
    import altair as alt

    column = SAMPLE + LETTER * max(map(len, styles)) + 14
    columns = min(max(1, int(width // column)), len(styles))
    rows = math.ceil(len(styles) / columns)
    # Down the columns, to keep the lines of one policy together.
    places = [(line, n // rows * column, n % rows) for n, line in enumerate(styles)]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False, zero=False))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[rows - 0.5, -0.5], nice=False))
    ends = [
        {"line": line, "x": left + end, "row": row}
        for (line, left, row), end in product(places, (0, SAMPLE - 10))
    ]
    middles = [{"line": one, "x": left + SAMPLE / 2 - 5, "row": row} for one, left, row in places]
    words = [{"line": line, "x": left + SAMPLE, "row": row} for line, left, row in places]
    return alt.layer(
        alt.Chart({"values": ends}).mark_line().encode(x=x, y=y, **_line(styles)),
        alt.Chart({"values": middles})
        .mark_point(opacity=1, strokeWidth=1.6)
        .encode(x=x, y=y, **_point(styles)),
        alt.Chart({"values": words})
        .mark_text(align="left", fontSize=12)
        .encode(x=x, y=y, text="line:N"),
    ).properties(width=width, height=ROW * rows, view=alt.ViewBackground(stroke=None))


def _line(styles: Mapping[str, LineStyle]) -> dict[str, Any]:
    import altair as alt

    return {
        "color": _by_line(alt.Color, styles, [look.colour for look in styles.values()]),
        "strokeDash": _by_line(alt.StrokeDash, styles, [look.dash for look in styles.values()]),
        "strokeWidth": _by_line(alt.StrokeWidth, styles, _falling(3.6, 1.6, len(styles))),
    }


def _point(styles: Mapping[str, LineStyle]) -> dict[str, Any]:
    import altair as alt

    return {
        "color": _by_line(alt.Color, styles, [look.colour for look in styles.values()]),
        "shape": _by_line(alt.Shape, styles, [look.shape for look in styles.values()]),
        "size": _by_line(alt.Size, styles, _falling(110, 36, len(styles))),
    }


def _by_line(channel: Any, styles: Mapping[str, LineStyle], values: Sequence[Any]) -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(styles), range=list(values))
    return channel("line:N", scale=scale, sort=None, legend=None)


def _falling(first: float, last: float, count: int) -> list[float]:
    step = (first - last) / max(count - 1, 1)
    return [round(first - place * step, 2) for place in range(count)]


def fitted(values: Iterable[float | None], *, form: str = ",~r", margin: float = 1.12) -> Any:
    """Return a logarithmic scale that fits the values, and an axis with ticks at 1, 2 and 5.

    Values that are unknown or not positive are ignored.
    """
    import altair as alt

    known = [value for value in values if value and value > 0]
    low, high = min(known) / margin, max(known) * margin
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power, digit in product(powers, (1, 2, 5))]
    return {
        "scale": alt.Scale(type="log", domain=[low, high], nice=False),
        "axis": alt.Axis(values=[tick for tick in ticks if low <= tick <= high], format=form),
    }


class InsideScript(json.JSONEncoder):
    """JSON that is safe inside a script element: nothing in it ends the script."""

    def encode(self, o: Any) -> str:
        r"""Return the text of a value.

        >>> print(InsideScript().encode("</script>"))
        "\u003c/script>"
        """
        return super().encode(o).replace("<", r"\u003c")


def save(chart: "alt.TopLevelMixin", path: Path) -> Path:
    """Write a chart as .png, .svg or .html; the HTML page works offline."""
    ending: Any = path.suffix.lower().removeprefix(".")
    with atomically(path) as partial:
        if ending == "html":
            chart.save(partial, format=ending, inline=True, json_kwds={"cls": InsideScript})
        else:
            # Twice the size keeps a bitmap sharp in print; SVG scales by itself.
            chart.save(partial, format=ending, scale_factor=2.0 if ending == "png" else 1.0)
    return path


@dataclass(frozen=True)
class Rendered:
    """A chart of Altair that a document draws as SVG."""

    chart: Any

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        file = io.StringIO()
        self.chart.save(file, format="svg")
        return file.getvalue()

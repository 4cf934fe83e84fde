"""The report's charts: narrow enough for a phone, readable without colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqbatch.campaign.spec.measure import Measure
from seqbatch.display import visible
from seqbatch.inference import Interval
from seqbatch.pictures import COLOURS, GREY, INK

if TYPE_CHECKING:
    import altair as alt

#: The width of all charts: it nearly fits a phone; pages scale it up.
WIDTH = 380
#: The point's shape, by the interval's verdict.
SHAPES = {"": "circle", "better": "circle", "worse": "triangle-down", "not clear": "diamond"}
#: The name of each shape.
SHAPE_WORDS = {
    "better": "a filled circle is clearly better",
    "worse": "a filled triangle clearly worse",
    "not clear": "a hollow diamond not clearly different",
}
#: Longer names are cut in pictures.
LONGEST = 24
#: With more waves than this, cells are shaded without numbers.
MOST_NUMBERED = 7


@dataclass(frozen=True)
class Bar:
    """One row of an interval chart: action, numbers as text, estimate, low, high, verdict."""

    action: str
    told: str
    interval: tuple[float, float, float]
    says: str = ""

    @classmethod
    def of(cls, measure: Measure, action: str, one: Interval, *, says: str = "") -> "Bar":
        """Return an action's interval for the chart; `says` is the verdict of a difference."""
        numbers = (one.estimate, one.low, one.high)
        shown = [measure.number(value, one.error) for value in numbers]
        plus = "+" if says and one.estimate > 0 else ""
        told = f"{plus}{shown[0]} ({shown[1]} to {shown[2]}){says and f', {says}'}"
        estimate, low, high = (measure.scale * value for value in numbers)
        return cls(action, told, (estimate, low, high), says)

    @property
    def words(self) -> str:
        """The row in words."""
        return f"{self.action}: {self.told}"

    @property
    def label(self) -> str:
        """The row's label; a long name is cut to leave room for the numbers."""
        name = visible(self.action)
        return f"{name if len(name) <= LONGEST else name[: LONGEST - 1] + '…'}: {self.told}"


def intervals(bars: Sequence[Bar], *, title: str, zero: str = "") -> "alt.TopLevelMixin":
    """Draw intervals one below the other, each under its label.

    Parameters
    ----------
    bars
        The rows, from top to bottom.
    title
        The title of the numbers.
    zero
        The meaning of a difference of 0; no line is drawn at 0 if this is empty.
    """
    import altair as alt

    rows = [
        {"place": place, "words": bar.label, "says": bar.says,
         **dict(zip(("estimate", "low", "high"), bar.interval, strict=True))}
        for place, bar in enumerate(bars)
    ]  # fmt: skip
    base = alt.Chart({"values": rows}).encode(y=alt.Y("place:O", axis=None))
    scale = alt.Scale(zero=bool(zero), nice=False, padding=12)
    place = alt.X("low:Q", title=visible(title), scale=scale, axis=_axis(tickCount=6, grid=False))
    lines = base.mark_rule(strokeWidth=2.5, yOffset=10, color=INK).encode(x=place, x2="high:Q")
    ends = [
        base.mark_tick(size=12, thickness=2.5, yOffset=10, opacity=1, color=INK).encode(
            x=f"{end}:Q"
        )
        for end in ("low", "high")
    ]
    points = [
        base.transform_filter(alt.datum.says == says)
        .mark_point(shape=shape, size=130, filled=True, yOffset=10, opacity=1, stroke=INK,
                    fill="white" if says == "not clear" else COLOURS[0], strokeWidth=2)
        .encode(x="estimate:Q")
        for says, shape in SHAPES.items()
        if any(bar.says == says for bar in bars)
    ]  # fmt: skip
    text: dict[str, Any] = {"align": "left", "dy": -10, "fontSize": 15, "limit": WIDTH}
    # A white outline keeps the text readable where it crosses a line.
    words = [
        base.mark_text(**text, **look).encode(text="words:N", x=alt.value(0))
        for look in ({"stroke": "white", "strokeWidth": 5, "color": "white"}, {"color": INK})
    ]
    layers = [lines, *ends, *points, *words]
    if zero:
        # The line needs its own data, or it would be drawn once per interval.
        at = alt.Chart({"values": [{"at": 0}]})
        layers.insert(0, at.mark_rule(strokeDash=[5, 4], color=GREY).encode(x="at:Q"))
    return _finished(alt.layer(*layers).properties(width=WIDTH, height=alt.Step(46)))


@dataclass(frozen=True)
class WavePoint:
    """An action's lift in one wave, with its interval."""

    action: str
    wave: int
    estimate: float
    low: float
    high: float


def by_wave(points: Sequence[WavePoint], *, title: str) -> "alt.TopLevelMixin":
    """Draw lifts with their intervals over the waves, one panel per action."""
    import altair as alt

    names = list(dict.fromkeys(one.action for one in points))
    ends = min(0.0, *(one.low for one in points)), max(0.0, *(one.high for one in points))
    scale = alt.Scale(zero=True, nice=False, padding=10, domain=list(ends))
    panels = []
    for place, name in enumerate(names):
        rows = [
            {"wave": one.wave, "estimate": one.estimate, "low": one.low, "high": one.high}
            for one in points
            if one.action == name
        ]
        base = alt.Chart({"values": rows}).encode(
            x=alt.X("wave:O", title="wave", axis=_axis(labelAngle=0, grid=False))
        )
        y = alt.Y("low:Q", scale=scale, title=visible(title) if not place else None,
                  axis=_axis(tickCount=5, grid=False, titleLimit=200))  # fmt: skip
        zero = alt.Chart({"values": [{"at": 0}]}).mark_rule(strokeDash=[5, 4], color=GREY)
        layers = [
            zero.encode(y=alt.Y("at:Q", scale=scale)),
            base.mark_rule(strokeWidth=2.5, color=INK).encode(y=y, y2="high:Q"),
            base.mark_point(size=110, filled=True, opacity=1, fill=COLOURS[0], stroke=INK,
                            strokeWidth=2).encode(y=alt.Y("estimate:Q", scale=scale)),
        ]  # fmt: skip
        label = name if len(name := visible(name)) <= LONGEST else name[: LONGEST - 1] + "…"
        width = max((WIDTH - 60) // len(names) - 12, 70)
        panels.append(
            alt.layer(*layers).properties(
                width=width, height=190,
                title=alt.TitleParams(label, fontSize=14, fontWeight="normal", color=INK),
            )
        )  # fmt: skip
    return _finished(alt.hconcat(*panels, spacing=12))


@dataclass(frozen=True)
class Share:
    """An action's share of a wave's units."""

    wave: int
    action: str
    share: float


def shares(given: Sequence[Share]) -> "alt.TopLevelMixin":
    """Draw each action's share of each wave as a shaded cell (darker is more) with its number."""
    import altair as alt

    names = list(dict.fromkeys(visible(one.action) for one in given))
    waves = len({one.wave for one in given})
    rows = [{"wave": one.wave, "action": visible(one.action), "share": one.share} for one in given]
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("wave:O", title="wave", axis=_axis(labelAngle=0, orient="top", grid=False)),
        y=alt.Y("action:N", title=None, sort=names, axis=_axis(labelLimit=150, minExtent=100)),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=alt.Color(
            "share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=["#eef3f8", "#08306b"])
        )
    )
    if waves > MOST_NUMBERED:
        return _finished(cells.properties(width=WIDTH - 100, height=alt.Step(28)))
    numbers = base.mark_text(fontSize=13).encode(
        text=alt.Text("share:Q", format=".0%"),
        color=alt.condition("datum.share > 0.45", alt.value("white"), alt.value(INK)),
    )
    size = {"width": WIDTH - 100, "height": alt.Step(34)}
    return _finished(alt.layer(cells, numbers).properties(**size))


@dataclass(frozen=True)
class Predicted:
    """The model's prediction for an action at a value of a feature."""

    feature: str
    value: float
    action: str
    outcome: float


def predictions(points: Sequence[Predicted], *, title: str) -> "alt.TopLevelMixin":
    """Draw the model's predictions over one or two features, with one line per action."""
    import altair as alt

    names = list(dict.fromkeys(visible(one.action) for one in points))
    features = list(dict.fromkeys(one.feature for one in points))
    heights = [one.outcome for one in points]
    scale = alt.Scale(zero=False, domain=[min(heights), max(heights)], padding=8)
    width = WIDTH - 80 if len(features) == 1 else (WIDTH - 110) // 2
    panels = [
        _panel([one for one in points if one.feature == feature], names)
        .encode(
            x=alt.X("value:Q", title=visible(feature),
                    axis=_axis(values=_ends(points, feature), labelFlush=False, format=".3~r")),
            y=alt.Y("outcome:Q", title=visible(title) if not place else None, scale=scale,
                    axis=_axis(tickCount=5)),
        )
        .properties(width=width, height=200)
        for place, feature in enumerate(features)
    ]  # fmt: skip
    return _finished(alt.hconcat(*panels, spacing=12))


def _panel(points: Sequence[Predicted], names: list[str]) -> "alt.Chart":
    import altair as alt

    rows = [
        {"value": one.value, "action": visible(one.action), "outcome": one.outcome}
        for one in points
    ]
    legend = alt.Legend(orient="top", title=None, labelFontSize=13, symbolSize=110, columns=2,
                        labelLimit=160, symbolStrokeWidth=2)  # fmt: skip
    told: dict[str, Any] = {"field": "action", "type": "nominal", "sort": names}
    chart: alt.Chart = (
        alt.Chart({"values": rows})
        .mark_line(point={"size": 90, "filled": True, "opacity": 1}, strokeWidth=2)
        .encode(
            color=alt.Color(**told, legend=legend, scale=alt.Scale(
                domain=names, range=list(COLOURS[: len(names)]))),
            shape=alt.Shape(**told, legend=legend, scale=alt.Scale(
                domain=names, range=["circle", "square", "triangle-up", "diamond"][: len(names)])),
        )
    )  # fmt: skip
    return chart


def _ends(points: Sequence[Predicted], feature: str) -> list[float]:
    values = [one.value for one in points if one.feature == feature]
    return [min(values), max(values)]


def _axis(**more: Any) -> "alt.Axis":
    import altair as alt

    look = {"labelFontSize": 13.5, "titleFontSize": 13.5, "titleFontWeight": "normal",
            "labelColor": INK, "titleColor": INK, "titleLimit": WIDTH}  # fmt: skip
    return alt.Axis(**{**look, **more})


def _finished(chart: Any) -> "alt.TopLevelMixin":
    made: alt.TopLevelMixin = chart.configure_view(stroke=None)
    return made

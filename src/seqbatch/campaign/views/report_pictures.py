"""The report's charts: narrow enough for a phone, readable without colours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqbatch.campaign.spec.measure import Measure
from seqbatch.chart import (
    Axis,
    BarMark,
    Chart,
    Entry,
    LineMark,
    Panel,
    PanelMark,
    PointMark,
    TextMark,
)
from seqbatch.display import visible
from seqbatch.inference import Interval
from seqbatch.pictures import COLOURS, GREY, INK

#: The width of a chart's area: with its labels it nearly fits a phone; pages scale it up.
WIDTH = 380.0
#: The width of the panels of a row by wave, which with their labels fit a phone, and their number.
BY_WAVE, IN_ROW = 240.0, 2
#: The line at a difference of 0.
DASH = "5 4"
#: The shapes of the actions' points, where each has a line.
LINE_SHAPES = ("circle", "square", "triangle-up", "diamond")
#: The colours of no units and of all units.
PALEST, DARKEST = (238, 243, 248), (8, 48, 107)
#: The point's shape, by the interval's verdict.
SHAPES = {"": "circle", "better": "circle", "worse": "triangle-down", "not clear": "diamond"}
#: The name of each shape.
SHAPE_WORDS = {
    "better": "a filled circle is clearly better",
    "worse": "a filled triangle is clearly worse",
    "not clear": "a hollow diamond is not clearly different",
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
        low, high = (measure.end(value, one.error) for value in numbers[1:])
        plus = "+" if says and one.estimate > 0 else ""
        told = f"{plus}{measure.number(one.estimate, one.error)} ({low} to {high})"
        told += says and f", {says}"
        first, second, third = (measure.scale * value for value in numbers)
        return cls(action, told, (first, second, third), says)

    @property
    def words(self) -> str:
        """The row in words."""
        return f"{self.action}: {self.told}"

    @property
    def label(self) -> str:
        """The row's label; a long name is cut to leave room for the numbers."""
        return f"{_cut(self.action)}: {self.told}"


def _cut(name: str) -> str:
    name = visible(name)
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def intervals(bars: Sequence[Bar], *, title: str, zero: str = "") -> Chart:
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
    x = Axis.numbers(
        [value for bar in bars for value in bar.interval], title=title, zero=bool(zero), count=6
    )
    y = Axis.categories([bar.action for bar in bars], down=True, shown=False)
    marks: list[PanelMark] = []
    if zero:
        marks.append(LineMark(points=[(0, 0), (0, y.high)], colour=GREY, width=1, dash=DASH))
    for place, bar in enumerate(bars):
        estimate, low, high = bar.interval
        middle = place + 0.5
        marks += [
            LineMark(points=[(low, middle), (high, middle)], width=2.5, dy=10),
            *(LineMark(points=[(end, place + 0.37), (end, place + 0.63)], width=2.5, dy=10)
              for end in (low, high)),
            PointMark(x=estimate, y=middle, dy=10, shape=SHAPES[bar.says], size=5.5, border=2,
                      fill="white" if bar.says == "not clear" else COLOURS[0]),
            TextMark(x=x.low, y=middle, dy=-7, text=bar.label, size=14, halo=True),
        ]  # fmt: skip
    return Chart(rows=[[Panel(x=x, y=y, marks=marks, width=WIDTH, height=46.0 * len(bars))]])


@dataclass(frozen=True)
class WavePoint:
    """An action's lift in one wave, with its interval."""

    action: str
    wave: int
    estimate: float
    low: float
    high: float


def by_wave(points: Sequence[WavePoint], *, title: str) -> Chart:
    """Draw lifts with their intervals over the waves, one panel per action, two in a row."""
    names = list(dict.fromkeys(one.action for one in points))
    waves = sorted({one.wave for one in points})
    ends = [end for one in points for end in (one.low, one.high)]
    y = Axis.numbers(ends, title=title, zero=True)
    width = BY_WAVE / min(len(names), IN_ROW)
    panels = []
    for place, name in enumerate(names):
        x = Axis.categories([str(wave) for wave in waves], title="wave")
        marks: list[PanelMark] = [
            LineMark(points=[(0, 0), (x.high, 0)], colour=GREY, width=1, dash=DASH)
        ]
        for one in points:
            if one.action == name:
                middle = waves.index(one.wave) + 0.5
                marks += [
                    LineMark(points=[(middle, one.low), (middle, one.high)], width=2.5),
                    PointMark(x=middle, y=one.estimate, fill=COLOURS[0], size=5, border=2),
                ]
        left = y if place % IN_ROW == 0 else replace(y, title="", shown=False)
        panels.append(Panel(x=x, y=left, marks=marks, width=width, height=150, title=_cut(name)))
    return Chart(rows=[panels[start : start + IN_ROW] for start in range(0, len(panels), IN_ROW)])


@dataclass(frozen=True)
class Share:
    """An action's share of a wave's units."""

    wave: int
    action: str
    share: float


def shares(given: Sequence[Share]) -> Chart:
    """Draw each action's share of each wave as a shaded cell (darker is more) with its number."""
    names = list(dict.fromkeys(one.action for one in given))
    waves = sorted({one.wave for one in given})
    marks: list[PanelMark] = []
    for one in given:
        column, row = waves.index(one.wave), names.index(one.action)
        sides = (column, column + 1), (row, row + 1)
        marks.append(BarMark(x=sides[0], y=sides[1], colour=_shade(one.share), border="white"))
        if len(waves) <= MOST_NUMBERED:
            colour = "white" if one.share > 0.45 else INK
            marks.append(
                TextMark(x=column + 0.5, y=row + 0.5, dy=4, text=f"{one.share:.0%}", size=13,
                         anchor="middle", colour=colour)
            )  # fmt: skip
    panel = Panel(
        x=Axis.categories([str(wave) for wave in waves], title="wave"),
        y=Axis.categories([_cut(name) for name in names], down=True),
        marks=marks, width=WIDTH - 80, height=34.0 * len(names), on_top=True,
    )  # fmt: skip
    return Chart(rows=[[panel]])


def _shade(share: float) -> str:
    """Return a colour between those of no units and of all units."""
    mixed = (
        round(pale + share * (dark - pale)) for pale, dark in zip(PALEST, DARKEST, strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


@dataclass(frozen=True)
class Predicted:
    """The model's prediction for an action at a value of a feature."""

    feature: str
    value: float
    action: str
    outcome: float


def predictions(points: Sequence[Predicted], *, title: str) -> Chart:
    """Draw the model's predictions over one or two features, with one line per action."""
    names = list(dict.fromkeys(one.action for one in points))
    looks = {
        name: (COLOURS[place % len(COLOURS)], LINE_SHAPES[place % len(LINE_SHAPES)])
        for place, name in enumerate(names)
    }
    features = list(dict.fromkeys(one.feature for one in points))
    y = Axis.numbers([one.outcome for one in points], title=title, grid=True)
    width = WIDTH - 40 if len(features) == 1 else (WIDTH - 70) / 2
    panels = []
    for feature in features:
        own = [one for one in points if one.feature == feature]
        values = [one.value for one in own]
        marks: list[PanelMark] = []
        for name, (colour, shape) in looks.items():
            line = sorted((one.value, one.outcome) for one in own if one.action == name)
            marks.append(LineMark(points=line, colour=colour))
            marks += [PointMark(x=x, y=up, colour=colour, shape=shape, size=5) for x, up in line]
        x = Axis.numbers(
            values,
            title=feature,
            ticks=[min(values), max(values)],
            form=lambda value: f"{value:.3g}",
        )
        panels.append(Panel(x=x, y=y, marks=marks, width=width, height=200))
        y = replace(y, title="")
    legend = [Entry(visible(name), colour, shape) for name, (colour, shape) in looks.items()]
    return Chart(rows=[panels], legend=legend)

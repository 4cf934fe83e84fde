"""Charts as values: rows of panels with axes, marks and a legend, drawn as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seqbatch.chart.axis import Axis
from seqbatch.chart.elements import (
    LABEL,
    PALE,
    TICK,
    TITLE,
    px,
    rule,
    shape,
    width_of,
    words,
)
from seqbatch.chart.marks import Frame, PanelMark, TextMark
from seqbatch.errors import InvalidArgumentError
from seqbatch.output_files import atomically
from seqbatch.pictures import GREY, INK

#: Space around a chart, between its panels, and between lines of text.
EDGE, GAP, LINE = 8.0, 22.0, 1.35
#: The file endings of charts.
ENDINGS = (".png", ".svg")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"


class Drawable(Protocol):
    """Anything that can be drawn as SVG."""

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        ...


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Marks between two axes.

    Parameters
    ----------
    x, y
        The axes.
    marks
        The marks, the first below the others.
    width, height
        The size of the area between the axes, in pixels.
    title, subtitle
        Words above it.
    on_top
        Whether the horizontal axis is above the area.
    """

    x: Axis
    y: Axis
    marks: Sequence[PanelMark]
    width: float
    height: float
    title: str = ""
    subtitle: Sequence[str] = ()
    on_top: bool = False

    @property
    def margins(self) -> tuple[float, float, float, float]:
        """The room left, above, right of and below the area."""
        left = right = 6.0
        if self.y.shown:
            left = max((width_of(label, TICK) for _, label in self.y.ticks), default=0.0) + 10
        left += LABEL * LINE * bool(self.y.title)
        across = (TICK * LINE + 8) * self.x.shown + LABEL * LINE * bool(self.x.title)
        heading = LABEL * LINE * bool(self.title) + TICK * LINE * len(self.subtitle)
        above = heading + 6 * bool(heading) + 6 + across * self.on_top
        if self.x.shown and self.x.ticks:
            last, label = self.x.ticks[-1]
            beyond = width_of(label, TICK) / 2 - self.width * (1 - self.x.share(last))
            right = max(right, beyond + 2)
        for mark in self.marks:
            if isinstance(mark, TextMark):
                ahead = {"start": 1.0, "middle": 0.5, "end": 0.0}[mark.anchor]
                end = self.width * self.x.share(mark.x) + mark.dx
                right = max(right, end + ahead * width_of(mark.text, mark.size) + 2 - self.width)
        return left, above, right, 6.0 if self.on_top else max(across, 6.0)

    @property
    def size(self) -> tuple[float, float]:
        """The width and height with its margins."""
        left, above, right, below = self.margins
        return left + self.width + right, above + self.height + below

    def elements(self, left: float, top: float) -> str:
        """Return the SVG elements of the panel at a place in the picture."""
        before, above, _, _ = self.margins
        frame = Frame(left + before, top + above, self.width, self.height, self.x, self.y)
        made = [*self._headings(frame.left, top), *self._across(frame), *self._up(frame, left)]
        return "\n".join([*made, *(mark.elements(frame) for mark in self.marks)])

    def _headings(self, left: float, top: float) -> list[str]:
        made, y = [], top
        if self.title:
            y += LABEL * LINE
            made.append(words(self.title, left, y - 4, LABEL, more=' font-weight="600"'))
        for line in self.subtitle:
            y += TICK * LINE
            made.append(words(line, left, y - 4, TICK, fill=GREY))
        return made

    def _across(self, frame: Frame) -> list[str]:
        """Draw the horizontal axis."""
        if not self.x.shown:
            return []
        bottom = frame.top + frame.height
        edge, sign = (frame.top, -1) if self.on_top else (bottom, 1)
        made = [rule(frame.left, edge, frame.left + frame.width, edge)]
        # Words stand on their lowest line: below an axis they need their height as well.
        below = edge + sign * 7 + (0 if self.on_top else TICK)
        for value, label in self.x.ticks:
            x = frame.x(value)
            if self.x.grid:
                made.append(rule(x, frame.top, x, bottom, colour=PALE))
            made.append(rule(x, edge, x, edge + sign * 4))
            made.append(words(label, x, below, TICK, anchor="middle"))
        if self.x.title:
            middle, y = frame.left + frame.width / 2, below + sign * LABEL * LINE
            made.append(words(self.x.title, middle, y, LABEL, anchor="middle"))
        return made

    def _up(self, frame: Frame, left: float) -> list[str]:
        """Draw the vertical axis."""
        made = []
        if self.y.shown:
            made.append(rule(frame.left, frame.top, frame.left, frame.top + frame.height))
            for value, label in self.y.ticks:
                y = frame.y(value)
                if self.y.grid:
                    made.append(rule(frame.left, y, frame.left + frame.width, y, colour=PALE))
                made.append(rule(frame.left - 4, y, frame.left, y))
                made.append(words(label, frame.left - 7, y + TICK / 3, TICK, anchor="end"))
        if self.y.title:
            x, y = left + LABEL, frame.top + frame.height / 2
            turned = f' transform="rotate(-90 {px(x)} {px(y)})"'
            made.append(words(self.y.title, x, y, LABEL, anchor="middle", more=turned))
        return made


@dataclass(frozen=True)
class Entry:
    """One entry of a legend."""

    label: str
    colour: str
    shape: str = "square"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Rows of panels under a title and a legend.

    Parameters
    ----------
    rows
        The panels, row by row.
    title, subtitle
        Words above them.
    legend
        The meaning of colours and shapes.

    Examples
    --------
    >>> from seqbatch.chart.marks import PointMark
    >>> panel = Panel(
    ...     x=Axis.categories(["a", "b"]), y=Axis.numbers([1.0, 3.0], zero=True),
    ...     marks=[PointMark(x=0.5, y=1.0), PointMark(x=1.5, y=3.0)], width=100, height=60,
    ... )
    >>> Chart(rows=[[panel]], title="Two points").svg()[:5]
    '<svg '
    """

    rows: Sequence[Sequence[Panel]]
    title: str = ""
    subtitle: Sequence[str] = ()
    legend: Sequence[Entry] = ()

    def svg(self) -> str:
        """Return the chart as the text of an SVG file."""
        wide = max(sum(panel.size[0] for panel in row) + GAP * (len(row) - 1) for row in self.rows)
        texts = [width_of(self.title, TITLE), *(width_of(line, TICK) for line in self.subtitle)]
        wide = max(wide, *texts)
        made, y = self._headings(wide)
        for row in self.rows:
            x = EDGE
            for panel in row:
                made.append(panel.elements(x, y))
                x += panel.size[0] + GAP
            y += max(panel.size[1] for panel in row) + GAP
        width, height = wide + 2 * EDGE, y - GAP + EDGE
        inside = "\n".join(made)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{px(width)}" height="{px(height)}" '
            f'viewBox="0 0 {px(width)} {px(height)}" font-family="{FONT}">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{inside}\n</svg>\n'
        )

    def _headings(self, wide: float) -> tuple[list[str], float]:
        """Draw title, subtitle and legend; return them and the place below."""
        made, y = [], EDGE
        if self.title:
            y += TITLE * LINE
            made.append(words(self.title, EDGE, y - 5, TITLE, more=' font-weight="600"'))
        for line in self.subtitle:
            y += TICK * LINE
            made.append(words(line, EDGE, y - 4, TICK, fill=GREY))
        y += 8 * bool(self.title or self.subtitle)
        x = EDGE
        for entry in self.legend:
            needed = 30 + width_of(entry.label, LABEL)
            if x > EDGE and x + needed > wide + EDGE:
                x, y = EDGE, y + LABEL * 1.6
            made.append(shape(entry.shape, x + 7, y + 8, 5.5, fill=entry.colour, stroke=INK))
            made.append(words(entry.label, x + 18, y + 12.5, LABEL))
            x += needed
        return made, y + (LABEL * 1.6 + 4) * bool(self.legend)

    def save(self, path: Path) -> Path:
        """Write the chart as .svg or .png."""
        text = self.svg()
        if path.suffix.lower() == ".svg":
            data = text.encode()
        elif path.suffix.lower() == ".png":
            data = _png(text, path)
        else:
            raise InvalidArgumentError(
                "path", f"a file that ends with {' or '.join(ENDINGS)}", path
            )
        with atomically(path) as partial:
            Path(partial).write_bytes(data)
        return path

    def _repr_html_(self) -> str:
        return self.svg()


def _png(text: str, path: Path) -> bytes:
    try:
        import vl_convert
    except ImportError:
        needed = 'an .svg file, or install the extra for bitmaps: pip install "seqbatch[lab]"'
        raise InvalidArgumentError("path", needed, path) from None
    # Twice the size keeps a bitmap sharp in print; SVG scales by itself.
    made: bytes = vl_convert.svg_to_png(text, scale=2.0)
    return made

"""What is drawn in a panel: lines, bars, points and words, in the values of its axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from seqbatch.chart.axis import Axis
from seqbatch.chart.elements import TICK, px, shape, words
from seqbatch.pictures import INK


@dataclass(frozen=True)
class Frame:
    """The place of a panel's area in the picture, and its axes."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        """Return the place of a value on the horizontal axis."""
        return self.left + self.width * self.across.share(value)

    def y(self, value: float) -> float:
        """Return the place of a value on the vertical axis."""
        share = self.up.share(value)
        return self.top + self.height * (share if self.up.down else 1 - share)


class PanelMark(Protocol):
    """Something drawn in a panel."""

    def elements(self, frame: Frame) -> str:
        """Return its SVG elements."""
        ...


@dataclass(frozen=True, kw_only=True)
class LineMark:
    """A line through points, moved by `dy` pixels."""

    points: Sequence[tuple[float, float]]
    colour: str = INK
    width: float = 2.0
    dash: str = ""
    opacity: float = 1.0
    dy: float = 0.0

    def elements(self, frame: Frame) -> str:
        """Return its SVG element."""
        places = " ".join(f"{px(frame.x(x))},{px(frame.y(y) + self.dy)}" for x, y in self.points)
        dash = f' stroke-dasharray="{self.dash}"' if self.dash else ""
        return (
            f'<polyline points="{places}" fill="none" stroke="{self.colour}" '
            f'stroke-width="{self.width:g}" stroke-opacity="{self.opacity:g}"{dash}/>'
        )


@dataclass(frozen=True, kw_only=True)
class BarMark:
    """A filled rectangle between two values on each axis, at least one pixel wide."""

    x: tuple[float, float]
    y: tuple[float, float]
    colour: str
    opacity: float = 1.0
    border: str = ""

    def elements(self, frame: Frame) -> str:
        """Return its SVG element."""
        left, right = sorted(map(frame.x, self.x))
        top, bottom = sorted(map(frame.y, self.y))
        border = f' stroke="{self.border}" stroke-width="2"' if self.border else ""
        return (
            f'<rect x="{px(left)}" y="{px(top)}" width="{px(max(right - left, 1.0))}" '
            f'height="{px(max(bottom - top, 1.0))}" fill="{self.colour}" '
            f'fill-opacity="{self.opacity:g}"{border}/>'
        )


@dataclass(frozen=True, kw_only=True)
class PointMark:
    """A point: a circle, or one of the shapes of CORNERS, moved by pixels."""

    x: float
    y: float
    colour: str = INK
    shape: str = "circle"
    size: float = 4.5
    fill: str | None = None
    border: float = 0.0
    dx: float = 0.0
    dy: float = 0.0

    def elements(self, frame: Frame) -> str:
        """Return its SVG element; `fill` is the colour unless given."""
        place = frame.x(self.x) + self.dx, frame.y(self.y) + self.dy
        return shape(
            self.shape, *place, self.size, fill=self.fill or self.colour, stroke=self.colour,
            border=self.border,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TextMark:
    """Words at a point, moved by pixels; `halo` keeps them readable over lines."""

    x: float
    y: float
    text: str
    dx: float = 0.0
    dy: float = 0.0
    anchor: str = "start"
    size: float = TICK
    colour: str = INK
    halo: bool = False

    def elements(self, frame: Frame) -> str:
        """Return its SVG element."""
        x, y = frame.x(self.x) + self.dx, frame.y(self.y) + self.dy
        halo = ' paint-order="stroke" stroke="white" stroke-width="4"' if self.halo else ""
        return words(self.text, x, y, self.size, anchor=self.anchor, fill=self.colour, more=halo)


def ring(x: float, y: float) -> PointMark:
    """Return a ring around a point."""
    return PointMark(x=x, y=y, size=9, fill="none", border=2)

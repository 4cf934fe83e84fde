"""Elements of SVG: words, shapes and rules."""

import html

from seqbatch.display import visible
from seqbatch.pictures import INK

#: The sizes of text: ticks, titles of axes and panels, the chart's title.
TICK, LABEL, TITLE = 12.0, 13.0, 15.0
#: The colour of axes, and of lines across panels.
AXIS, PALE = "#8a8a8a", "#e4e4e4"
#: The corners of shapes of size 1.
CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle-up": ((0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    "triangle-down": ((0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    "diamond": ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
}


def px(value: float) -> str:
    """Return a length in pixels, to a tenth."""
    return f"{round(value, 1):g}"


def rule(x: float, y: float, to_x: float, to_y: float, *, colour: str = AXIS) -> str:
    """Return a straight line."""
    return f'<line x1="{px(x)}" y1="{px(y)}" x2="{px(to_x)}" y2="{px(to_y)}" stroke="{colour}"/>'


def words(
    text: str, x: float, y: float, size: float, *, anchor: str = "start", fill: str = INK,
    more: str = "",
) -> str:  # fmt: skip
    """Return words at a place: their start, middle or end on their lowest line."""
    # Control characters would make the file unreadable.
    inside = html.escape(visible(text))
    return (
        f'<text x="{px(x)}" y="{px(y)}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{fill}"{more}>{inside}</text>'
    )


def shape(
    name: str, x: float, y: float, size: float, *, fill: str, stroke: str, border: float = 0.0
) -> str:
    """Return a circle, or one of the shapes of CORNERS, around a place."""
    look = f'fill="{fill}"' + (f' stroke="{stroke}" stroke-width="{border:g}"' if border else "")
    if name == "circle":
        return f'<circle cx="{px(x)}" cy="{px(y)}" r="{px(size)}" {look}/>'
    places = " ".join(f"{px(x + size * dx)},{px(y + size * dy)}" for dx, dy in CORNERS[name])
    return f'<polygon points="{places}" {look}/>'


def width_of(text: str, size: float) -> float:
    """Return about how wide text is; a picture has no way to measure it."""
    return size * sum(map(_share_of_size, visible(text)))


def _share_of_size(letter: str) -> float:
    if letter in "iljtfrI.,:;'|!()[] ":
        return 0.34
    if ord(letter) > 0x2E80:
        return 1.0
    return 0.85 if letter in "mwMW@%" else 0.68 if letter.isupper() else 0.57

"""Charts as plain values, drawn as SVG: panels with axes, lines, bars, points and words."""

from seqbatch.chart.axis import Axis
from seqbatch.chart.chart import ENDINGS, Chart, Drawable, Entry, Panel
from seqbatch.chart.marks import BarMark, LineMark, PanelMark, PointMark, TextMark, ring

__all__ = [
    "ENDINGS",
    "Axis",
    "BarMark",
    "Chart",
    "Drawable",
    "Entry",
    "LineMark",
    "Panel",
    "PanelMark",
    "PointMark",
    "TextMark",
    "ring",
]  # fmt: skip

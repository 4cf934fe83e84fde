"""The status as a chart: each action's units and outcomes, wave by wave."""

from typing import TYPE_CHECKING

from seqbatch.chart import Axis, BarMark, Chart, Entry, Panel, PanelMark, PointMark
from seqbatch.pictures import COLOURS

if TYPE_CHECKING:
    from seqbatch.campaign.views.status import Status

#: The chart's description in words.
PICTURED = "The share of units that got each action, and the mean outcome, wave by wave."
HEIGHT = 260.0


def picture(status: "Status") -> Chart:
    """Draw the units of each action and their outcomes, wave by wave."""
    names = list(dict.fromkeys(row.action for row in status.actions))
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    legend = [Entry(name, colour) for name, colour in colours.items()]
    panels = [_units(status, colours)]
    if any(row.weighted is not None for row in status.actions):
        panels.append(_means(status, colours))
    return Chart(rows=[panels], legend=legend)


def _waves(status: "Status") -> list[int]:
    return sorted({row.wave for row in status.actions})


def _across(status: "Status") -> Axis:
    return Axis.categories([str(wave) for wave in _waves(status)], title="wave")


def _units(status: "Status", colours: dict[str, str]) -> Panel:
    """Draw one bar for each wave, divided by the actions."""
    marks: list[PanelMark] = []
    for place, wave in enumerate(_waves(status)):
        units = {row.action: row.units for row in status.actions if row.wave == wave}
        top, total = 1.0, sum(units.values()) or 1
        for name, colour in colours.items():
            below = top - units.get(name, 0) / total
            if below < top:
                marks.append(BarMark(x=(place + 0.1, place + 0.9), y=(below, top), colour=colour))
            top = below
    return Panel(
        x=_across(status), marks=marks, width=240, height=HEIGHT, title="Assigned actions",
        y=Axis.numbers([0.0, 1.0], title="share of units", percent=True, padding=0.0),
    )  # fmt: skip


def _means(status: "Status", colours: dict[str, str]) -> Panel:
    """Draw the actions' weighted means side by side in each wave."""
    waves, names = _waves(status), list(colours)
    marks = [
        PointMark(
            x=waves.index(row.wave) + 0.1 + 0.8 * (names.index(row.action) + 0.5) / len(names),
            y=status.measure.scale * row.weighted,
            colour=colours[row.action],
        )
        for row in status.actions
        if row.weighted is not None
    ]
    y = Axis.numbers([mark.y for mark in marks], title=status.measure.column)
    return Panel(
        x=_across(status), y=y, marks=marks, width=320, height=HEIGHT, title="Weighted means"
    )

"""A rehearsal as a chart: what campaigns recommend under each truth, and how often."""

from collections.abc import Mapping
from typing import Any

from seqbatch.chart import Axis, BarMark, Chart, Entry, Panel
from seqbatch.pictures import COLOURS, GREY

#: The bar of campaigns that recommend no action.
NONE = "no action"


def draw(data: Mapping[str, Any]) -> Chart:
    """Draw one bar for each truth, divided by the recommended action."""
    actions = [name for name in data["actions"] if name != data["control"]]
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(actions)}
    colours[NONE] = GREY
    marks = []
    for place, truth in enumerate(data["truths"]):
        shares = {name: truth["recommended"][name]["share"] for name in actions}
        shares[NONE] = truth["verdicts"]["no action"]["share"]
        start = 0.0
        for name, share in shares.items():
            if share > 0:
                sides = (start, start + share), (place + 0.15, place + 0.85)
                marks.append(BarMark(x=sides[0], y=sides[1], colour=colours[name]))
            start += share
    names = [truth["name"] for truth in data["truths"]]
    panel = Panel(
        x=Axis.numbers([0.0, 1.0], title="share of campaigns", percent=True, padding=0.0),
        y=Axis.categories(names, down=True),
        marks=marks, width=480, height=36.0 * len(names),
    )  # fmt: skip
    legend = [Entry(name, colour) for name, colour in colours.items()]
    return Chart(rows=[[panel]], legend=legend)

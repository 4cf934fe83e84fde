"""Shared parts of all charts: a colour per policy, fitted axes, and saving."""

import json
import math
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqbatch.output_files import atomically

if TYPE_CHECKING:
    import altair as alt

#: The colour-blind-safe palette of Okabe and Ito, and a few more.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000",
    "#999999", "#B8B800",
)  # fmt: skip
#: For bounds, and for the background.
INK, GREY = "#222222", "#777777"
#: A policy has the same colour in every picture.
POLICIES = {
    "SBUCB": "#0072B2",
    "LinUCB": "#E69F00",
    "SupSBUCB": "#CC79A7",
    "SBPE": "#009E73",
    "BPE": "#D55E00",
    "RBGL": "#56B4E9",
    "LBGL": "#8C6D31",
    "ThompsonSampling": "#7B3294",
    "Lookahead": "#1B4F9C",
    "JointRidge": "#2CA58D",
    "EpsilonGreedy": "#B8B800",
    "UniformRandom": "#999999",
    "FixedAction": "#5E5E5E",
    "Oracle": "#000000",
}
#: All other policies, including yours; markers and dashes distinguish them.
OTHER = "#B2182B"


def policy_colour(name: str) -> str:
    """Return the colour of a policy, by the name of its class.

    >>> policy_colour("SBPE"), policy_colour("MyPolicy")
    ('#009E73', '#B2182B')
    """
    return POLICIES.get(name, OTHER)


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

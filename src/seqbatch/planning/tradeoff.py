"""The trade-off between regret and the detectable lift, by the share of randomised units."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from seqbatch.chart import Axis, Chart, LineMark, Panel, PanelMark, PointMark, TextMark, ring
from seqbatch.display import counted, percent_cut
from seqbatch.document import Document, Part, Picture, Section, Table, as_notebook, write
from seqbatch.output_files import require_target
from seqbatch.pictures import GREY
from seqbatch.planning.detection import planned_lift
from seqbatch.planning.gaussian_model import Model
from seqbatch.planning.result_text import rounded, with_error
from seqbatch.planning.trials import Trials
from seqbatch.policies.base import BasePolicy

# ----------------------------------------------------------------------
# Regret and the detectable lift for several randomised shares.


#: The randomised shares to try besides the plan's own.
SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
#: A share closer than this to the plan's own, relative to it, is left out.
NEAR = 0.3
#: The file endings of pictures.
PICTURES = (".png", ".svg", ".html")
TITLE = "What randomised units cost, and what they detect"


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """The regret and the detectable lift for one randomised share.

    Parameters
    ----------
    randomised
        The share.
    regret, error
        Expected regret under pure exploitation, and its Monte Carlo standard error.
    lift
        The lift over control that is detected with the given power.
    """

    randomised: float
    regret: float
    error: float
    lift: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Trade:
    """Regret against the detectable lift, on one grid and in the same trials.

    Parameters
    ----------
    points
        The points, from no randomised units to all.
    randomised
        The plan's own share, which is one of them.
    power
        The power with which the lifts are detected, two-sided at 5%.
    grid
        The sizes of the batches.
    asked
        The lift that the plan should detect, if any.
    """

    points: tuple[TradePoint, ...]
    randomised: float
    power: float
    grid: tuple[int, ...]
    asked: float | None = None

    @property
    def chosen(self) -> TradePoint:
        """The plan's own point."""
        return next(one for one in self.points if one.randomised == self.randomised)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {"power": self.power, "points": [asdict(one) for one in self.points]}

    def document(self) -> Document:
        """Return the trade as a document: words, picture and table."""
        drawn = Picture(self.chart, "Regret against the detectable lift")
        parts: list[Part] = [str(self), drawn, *self.tables()]
        return Document(TITLE, Section("trade", TITLE, parts), data=self.as_dict())

    def tables(self) -> list[Table]:
        """Return the table of the points."""
        return [table(self)]

    def chart(self) -> Chart:
        """Return the chart."""
        return draw(self)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the picture as .png or .svg, or with its table as an .html page.

        Parameters
        ----------
        path
            The file.
        force
            Whether to overwrite an existing file.
        """
        target = require_target(path, name="path", force=force, endings=PICTURES)
        if target.suffix.lower() == ".html":
            return write(self.document(), target, file_format="html")
        return self.chart().save(target)

    def _repr_html_(self) -> str:
        return as_notebook(self.document())

    def __str__(self) -> str:
        return describe(self)


def trade(
    trials: Trials,
    model: Model,
    sizes: Sequence[int],
    policy: BasePolicy,
    *,
    power: float = 0.8,
    asked: float | None = None,
) -> Trade:
    """Return regret and detectable lift for each randomised share, on batches of these sizes."""
    own = model.conduct.randomised
    points = []
    for share in _shares(own):
        conduct = replace(model.conduct, randomised=share)
        regret, error = replace(trials, conduct=conduct).rates(sizes).total(sizes)
        lift = planned_lift(replace(model, conduct=conduct), sizes, policy, power=power)
        points.append(TradePoint(randomised=share, regret=regret, error=error, lift=lift))
    return Trade(points=tuple(points), randomised=own, power=power, grid=tuple(sizes), asked=asked)


def _shares(own: float) -> list[float]:
    """Return the shares to try, without those close to the plan's own except 0 and 1."""
    others = {one for one in SHARES if one in (0.0, 1.0) or abs(one - own) > NEAR * own}
    return sorted({*others, own})


# ----------------------------------------------------------------------
# Text and table.


def describe(trade: "Trade") -> str:
    """Return a text on the plan's point and both ends."""
    least, most, own = trade.points[0], trade.points[-1], trade.chosen
    return (
        f"{own_words(trade)}: the expected regret is {rounded(own.regret)}, and a lift of "
        f"{rounded(own.lift)} is detected with {percent_cut(trade.power)} power. With no "
        f"randomised units these are {rounded(least.regret)} and {rounded(least.lift)}; with only "
        f"randomised units, {rounded(most.regret)} and {rounded(most.lift)}."
    )


def own_words(trade: "Trade") -> str:
    """Return a description of the plan's own point."""
    if trade.asked is None:
        return f"This plan randomises {percent_cut(trade.randomised)}"
    return (
        f"Randomise {percent_cut(trade.randomised)}, the smallest share that detects "
        f"{rounded(trade.asked)}"
    )


def table(trade: "Trade") -> Table:
    """Return the points as a table, the plan's own with a star."""
    mark = "this plan" if trade.asked is None else "recommended"
    return Table(
        f"Regret against the detectable lift, by the randomised share (* {mark})",
        ("randomised", "regret", f"lift detected with {percent_cut(trade.power)} power"),
        [
            (
                f"{percent_cut(one.randomised)} *"
                if one.randomised == trade.randomised
                else percent_cut(one.randomised),
                with_error(one.regret, one.error),
                rounded(one.lift),
            )
            for one in trade.points
        ],
    )


def grid_words(trade: "Trade") -> str:
    """Return a description of the batches."""
    sizes = [f"{size:,}" for size in trade.grid]
    if len(sizes) > 6:
        sizes = [*sizes[:3], "...", *sizes[-2:]]
    batches = counted(len(trade.grid), "batch")
    return f"{batches} of {', '.join(sizes)} units throughout"


# ----------------------------------------------------------------------
# The picture: regret against the detectable lift, for each share.


WIDTH, HEIGHT = 600.0, 360.0


def draw(trade: "Trade") -> Chart:
    """Draw the points from no randomised units to all, with the plan's own in a ring."""
    x = Axis.logarithmic(
        [*(one.lift for one in trade.points), trade.asked],
        title=f"lift over control that is detected with {percent_cut(trade.power)} power, "
        "in units of reward",
        margin=1.25,
    )
    y = Axis.logarithmic(
        [one.regret for one in trade.points],
        title="expected regret, in units of reward",
        margin=1.25,
    )
    line = [(one.lift, one.regret) for one in trade.points]
    marks: list[PanelMark] = [*_asked(trade, y), LineMark(points=line, colour=GREY, width=1.5)]
    for one in trade.points:
        label = percent_cut(one.randomised)
        marks.append(PointMark(x=one.lift, y=one.regret))
        marks.append(TextMark(x=one.lift, y=one.regret, dx=9, dy=-4, text=label, size=11))
    marks.append(ring(trade.chosen.lift, trade.chosen.regret))
    panel = Panel(x=x, y=y, marks=marks, width=WIDTH, height=HEIGHT)
    return Chart(rows=[[panel]], title=TITLE, subtitle=_subtitle(trade))


def _subtitle(trade: "Trade") -> list[str]:
    own = trade.chosen
    words = (
        "Beside each point: the share of units that get a random action. "
        f"Ring: {own_words(trade)[0].lower()}{own_words(trade)[1:]}; regret {rounded(own.regret)}, "
        f"lift {rounded(own.lift)}. {grid_words(trade).capitalize()}."
    )
    return textwrap.wrap(words, 90)


def _asked(trade: "Trade", y: Axis) -> list[PanelMark]:
    """Draw the lift that should be detected as a line across the panel."""
    if trade.asked is None:
        return []
    return [
        LineMark(
            points=[(trade.asked, y.low), (trade.asked, y.high)], colour=GREY, width=1, dash="6 4"
        ),
        TextMark(x=trade.asked, y=y.low, dx=4, dy=-4, text=f"to detect: {rounded(trade.asked)}",
                 colour="#555555"),
    ]  # fmt: skip

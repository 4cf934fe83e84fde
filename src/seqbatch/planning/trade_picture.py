"""The trade as a picture: regret against the detectable lift, share by share."""

import textwrap
from typing import TYPE_CHECKING, Any

from seqbatch import display
from seqbatch.pictures import GREY, INK, fitted
from seqbatch.planning.assumed import percent
from seqbatch.planning.trade_words import describe, grid_words, own_words, table
from seqbatch.planning.words import number

if TYPE_CHECKING:
    import altair as alt

    from seqbatch.planning.trade import Trade

WIDTH, HEIGHT = 600, 360


def draw(trade: "Trade") -> "alt.TopLevelMixin":
    """Draw the curve from no randomised units to all, with the plan's own point in a ring."""
    titled: alt.TopLevelMixin = panel(trade).configure_view(stroke=None)
    return titled


def panel(trade: "Trade") -> Any:
    """Draw the points, each with its randomised share beside it."""
    import altair as alt

    values = [
        {
            "lift": one.lift,
            "regret": one.regret,
            "share": percent(one.randomised),
            "own": one.randomised == trade.randomised,
            "order": one.randomised,
        }
        for one in trade.points
    ]
    base = alt.Chart({"values": values}).encode(
        x=alt.X(
            "lift:Q",
            title=f"lift over control that is found with {percent(trade.power)} power, "
            "in units of reward",
            **fitted([one.lift for one in trade.points], margin=1.25),
        ),
        y=alt.Y(
            "regret:Q",
            title="expected regret, in units of reward",
            **fitted([one.regret for one in trade.points], margin=1.25),
        ),
    )
    layers = [
        *_asked(trade),
        base.mark_line(color=GREY, strokeWidth=1.5).encode(order="order:Q"),
        base.mark_point(color=INK, filled=True, opacity=1, size=45),
        base.mark_text(align="left", dx=9, dy=-7, fontSize=11).encode(text="share:N"),
        base.transform_filter("datum.own").mark_point(
            color=INK, size=260, strokeWidth=2, opacity=1
        ),
    ]
    return alt.layer(*layers).properties(
        width=WIDTH,
        height=HEIGHT,
        title=alt.TitleParams(
            "What randomised units cost, and what they show",
            subtitle=_subtitle(trade),
            anchor="start",
            fontSize=15,
            offset=12,
        ),
    )


def _subtitle(trade: "Trade") -> list[str]:
    own = trade.chosen
    words = (
        "Beside each point: the share of units that get a random action. "
        f"Ring: {own_words(trade)[0].lower()}{own_words(trade)[1:]}; regret {number(own.regret)}, "
        f"lift {number(own.lift)}. {grid_words(trade).capitalize()}."
    )
    return textwrap.wrap(words, 90)


def _asked(trade: "Trade") -> list[Any]:
    """Draw the lift that was to be detected, across the panel."""
    import altair as alt

    if trade.asked is None:
        return []
    base = alt.Chart({"values": [{"lift": trade.asked}]}).encode(x="lift:Q")
    return [
        base.mark_rule(color=GREY, strokeDash=[6, 4]),
        base.mark_text(align="left", dx=4, dy=-4, y=HEIGHT, color="#555555").encode(
            text=alt.value(f"to be found: {number(trade.asked)}")
        ),
    ]


def page(trade: "Trade") -> str:
    """Return the picture, the words and the table as a page of its own."""
    return display.page(
        "What randomised units cost, and what they show",
        [
            display.paragraph(describe(trade)),
            display.picture(lambda: draw(trade), "Regret against the detectable lift"),
            table(trade).html(),
        ],
    )

"""The trade between regret and detectable lifts, in plain words."""

from typing import TYPE_CHECKING

from seqbatch.display import Table, counted
from seqbatch.planning.assumed import percent
from seqbatch.planning.words import number, with_error

if TYPE_CHECKING:
    from seqbatch.planning.trade import Trade


def describe(trade: "Trade") -> str:
    """Return the plan's point and both ends."""
    least, most, own = trade.points[0], trade.points[-1], trade.chosen
    return (
        f"Between no randomised units and all of them, expected regret goes from "
        f"{number(least.regret)} to {number(most.regret)}, and the lift that is found with "
        f"{percent(trade.power)} power from {number(least.lift)} to {number(most.lift)}. "
        f"{own_words(trade)}; with it, regret is {number(own.regret)}, and the lift "
        f"{number(own.lift)}."
    )


def own_words(trade: "Trade") -> str:
    """Name the plan's own point."""
    if trade.asked is None:
        return f"This plan randomises {percent(trade.randomised)}"
    return f"Recommended: {percent(trade.randomised)}, the least that finds {number(trade.asked)}"


def table(trade: "Trade") -> Table:
    """Return the points, the plan's own with a star."""
    mark = "this plan" if trade.asked is None else "recommended"
    return Table(
        f"Regret against the detectable lift, by the randomised share (* {mark})",
        ("randomised", "regret", f"lift found with {percent(trade.power)} power"),
        [
            (
                f"{percent(one.randomised)} *"
                if one.randomised == trade.randomised
                else percent(one.randomised),
                with_error(one.regret, one.error),
                number(one.lift),
            )
            for one in trade.points
        ],
    )


def grid_words(trade: "Trade") -> str:
    """Say on which batches the trade was made."""
    sizes = [f"{size:,}" for size in trade.grid]
    if len(sizes) > 6:
        sizes = [*sizes[:3], "...", *sizes[-2:]]
    batches = counted(len(trade.grid), "batch")
    return f"{batches} of {', '.join(sizes)} units throughout"

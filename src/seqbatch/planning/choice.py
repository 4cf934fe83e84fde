"""Which number of batches a plan chooses, and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seqbatch.display import counted, number, percent_cut
from seqbatch.planning.request import Request
from seqbatch.planning.tables import Row

#: Where no grid earns enough, more batches must add at least this share of fully online's gain.
WORTH = 0.01
#: Where even fully online earns less than this share of the possible gain, more batches are not
#: worth their trouble.
LITTLE = 0.1
#: Nor where its whole gain is less than this share of how far chance alone moves the total reward.
UNSEEN = 0.05


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A number of batches.

    Parameters
    ----------
    batches
        M.
    reason
        Why, in a sentence or two.
    met
        Whether it earns as much of fully online's gain as `within` asks for; None where nothing
        was asked of it.
    """

    batches: int
    reason: str
    met: bool | None


def choose(request: Request, rows: Sequence[Row], online: Row) -> Choice:
    """Return M: the one asked for, the cheapest, or the smallest near enough to online."""
    if request.batches is not None:
        return _asked(request, rows, online)
    if request.batch_cost is not None:
        return _cheapest(rows)
    if request.possible - online.regret <= 2 * online.error:
        return Choice(
            batches=len(rows[0].sizes),
            reason="Nothing can be learned in time: what even fully online gains over a random "
            "assignment is within the simulation's error. The fewest batches do.",
            met=True,
        )
    gained = 1 - online.regret / request.possible
    noise = min(noise for _, noise in request.model.scenarios)
    chance = noise * math.sqrt(request.limits.units)
    if gained < LITTLE or gained * request.possible < UNSEEN * chance:
        return Choice(
            batches=len(rows[0].sizes),
            reason="Little can be learned in time: even fully online earns only "
            f"{percent_cut(gained)} of what a perfect assignment would gain over a random one, "
            f"{number(gained * request.possible, 3)} in all, where chance moves the total reward "
            f"by {number(chance, 3)}. The fewest batches do.",
            met=True,
        )
    enough = 1 - request.within
    near = [one for one in rows if _share(request, one, online) >= enough]
    if not near:
        return _not_met(request, rows, online)
    return Choice(
        batches=len(near[0].sizes),
        reason=f"Recommended as the smallest number of batches that earns {percent_cut(enough)} of "
        "what fully online gains over a random assignment; it earns "
        f"{percent_cut(_share(request, near[0], online))}.",
        met=True,
    )


def _share(request: Request, row: Row, online: Row) -> float:
    """Return how much of fully online's gain over a random assignment a row earns."""
    return (request.possible - row.regret) / (request.possible - online.regret)


def _not_met(request: Request, rows: Sequence[Row], online: Row) -> Choice:
    """Return the smallest number nearly as good as the best row, and say that it is not enough."""
    shares = [_share(request, row, online) for row in rows]
    most = max(shares)
    place = next(place for place, share in enumerate(shares) if share >= most - WORTH)
    one, tried = rows[place], [row.batches for row in rows]
    span = f"up to {tried[-1]} batches" if len(tried) > 1 else counted(len(one.sizes), "batch")
    earns = (
        f"{counted(len(one.sizes), 'batch').capitalize()} earn{'s' * (len(one.sizes) == 1)} "
        f"{percent_cut(shares[place])}"
    )
    best = (
        "the most" if shares[place] == most else f"nearly as much as the best, {percent_cut(most)}"
    )
    return Choice(
        batches=len(one.sizes),
        reason=f"The rule is not met: no grid of {span} earns {percent_cut(1 - request.within)} of "
        f"what fully online gains over a random assignment. {earns}, {best}. {_advice(request)}",
        met=False,
    )


def _advice(request: Request) -> str:
    """Say what may earn more."""
    if request.model.conduct.delay:
        return "Fully online knows every outcome at once; here they come late."
    if request.limits.waves is not None:
        return "More and smaller waves may."
    return "More batches (max_batches) or looser limits may."


def _asked(request: Request, rows: Sequence[Row], online: Row) -> Choice:
    """Return the number asked for, and how it compares with the rule."""
    row = next(one for one in rows if one.batches == request.batches)
    enough = 1 - request.within
    gain = request.possible - online.regret
    met = gain <= 2 * online.error or _share(request, row, online) >= enough
    reason = f"{counted(len(row.sizes), 'batch').capitalize()}, as asked for"
    if gain > 2 * online.error:
        reason += (
            f", earn{'s' * (len(row.sizes) == 1)} {percent_cut(_share(request, row, online))} of "
            f"what fully online gains over a random assignment; {percent_cut(enough)} "
            f"{'is enough' if met else 'would be enough, so that the rule is not met'}"
        )
    return Choice(batches=len(row.sizes), reason=f"{reason}.", met=met)


def _cheapest(rows: Sequence[Row]) -> Choice:
    row = min(rows, key=lambda one: one.total_cost)
    reason = "Recommended as the number of batches of least total cost, regret and batches together"
    if row is rows[-1] and len(rows) > 1:
        reason += "; it is the table's last, and more might cost less (max_batches)"
    return Choice(batches=len(row.sizes), reason=f"{reason}.", met=None)

"""The number of batches in a plan: its choice, its reason, and the noun (batch or wave) for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seqbatch.display import counted, number, percent_cut, plural
from seqbatch.planning.request import Request
from seqbatch.planning.result_rows import Row

#: The noun for units that are assigned before any of their outcomes is seen.
Noun = Literal["batch", "wave"]
#: If no grid earns enough, more batches must add at least this share of fully online's gain.
WORTH = 0.01
#: If even fully online earns less than this share of the possible gain, more batches are not worth
#: the effort.
LITTLE = 0.1
#: Nor if its gain is less than this share of the random variation of the total reward.
UNSEEN = 0.05


def more(noun: Noun) -> str:
    """Return the words for a longer table; only functions that say "batch" have `max_batches`.

    >>> more("batch"), more("wave")
    ('more batches (max_batches)', 'more waves')
    """
    return f"more {plural(noun)}{' (max_batches)' if noun == 'batch' else ''}"


def online_gain(request: Request) -> str:
    """Return what a plan is compared with: a policy that learns after every outcome."""
    gain = "what learning after every outcome (fully online) would gain over"
    if request.model.conduct.purpose == "choose":
        return f"{gain} equal shares for all units"
    return f"{gain} a random assignment"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A number of batches.

    Parameters
    ----------
    batches
        M.
    reason
        The reason, in a sentence or two.
    met
        Whether it earns as much of fully online's gain as `within` requires; None if there is no
        such requirement.
    """

    batches: int
    reason: str
    met: bool | None


def choose(request: Request, rows: Sequence[Row], online: Row, *, noun: Noun = "batch") -> Choice:
    """Return M: the requested number, the cheapest, or the smallest that is close to online."""
    if request.batches is not None:
        return _asked(request, rows, online, noun)
    if request.batch_cost is not None:
        return _cheapest(rows, noun)
    gain = online_gain(request)
    gain_first = gain[0].upper() + gain[1:]
    most = _most(request)
    if most - online.regret <= 2 * online.error:
        return Choice(
            batches=len(rows[0].sizes),
            reason=f"Use the fewest {plural(noun)}: nothing can be learned in time. {gain_first} "
            "is smaller than the simulation's error.",
            met=True,
        )
    gained = 1 - online.regret / request.possible
    noise = min(noise for _, noise in request.model.scenarios)
    chance = noise * math.sqrt(request.limits.units)
    earning = request.model.conduct.purpose == "earn"
    if earning and (gained < LITTLE or gained * request.possible < UNSEEN * chance):
        return Choice(
            batches=len(rows[0].sizes),
            reason=f"Use the fewest {plural(noun)}: little can be learned in time. {gain_first} "
            f"is only {percent_cut(gained)} of what a perfect assignment would gain, "
            f"{number(gained * request.possible, 3)} in total, while chance varies the total "
            f"reward by {number(chance, 3)}.",
            met=True,
        )
    enough = 1 - request.within
    near = [one for one in rows if _reaches(request, one, online)]
    if not near:
        return _not_met(request, rows, online, noun)
    share = _share(request, near[0], online)
    about = "" if share >= enough else ", as far as the simulation can tell"
    return Choice(
        batches=len(near[0].sizes),
        reason=f"Recommended: the smallest number of {plural(noun)} that earns "
        f"{percent_cut(enough)} of {gain}{about}; it earns {percent_cut(share)}.",
        met=True,
    )


def _share(request: Request, row: Row, online: Row) -> float:
    """Return the share of fully online's gain that a row earns."""
    most = _most(request)
    return (most - row.regret) / (most - online.regret)


def _reaches(request: Request, row: Row, online: Row) -> bool:
    """Return whether a row earns enough; what little differs in choices may be simulation error."""
    share = _share(request, row, online)
    if request.model.conduct.purpose == "choose":
        share += online.error / (_most(request) - online.regret)
    return share >= 1 - request.within


def _most(request: Request) -> float:
    """Return the regret of a random assignment; simple regret after equal shares for all units."""
    if request.model.conduct.purpose == "choose":
        return request.judged((request.limits.units,)).total((request.limits.units,))[0]
    return request.possible


def _not_met(request: Request, rows: Sequence[Row], online: Row, noun: Noun) -> Choice:
    """Return the smallest number nearly as good as the best row, marked as not enough."""
    shares = [_share(request, row, online) for row in rows]
    most = max(shares)
    place = next(place for place, share in enumerate(shares) if share >= most - WORTH)
    one, tried = rows[place], [row.batches for row in rows]
    span = f"up to {tried[-1]} {plural(noun)}" if len(tried) > 1 else counted(len(one.sizes), noun)
    earns = (
        f"{counted(len(one.sizes), noun).capitalize()} earn{'s' * (len(one.sizes) == 1)} "
        f"{percent_cut(shares[place])}"
    )
    best = (
        "the most" if shares[place] == most else f"nearly as much as the best ({percent_cut(most)})"
    )
    return Choice(
        batches=len(one.sizes),
        reason=f"{earns}, {best}. No plan with {span} reaches the target, "
        f"{percent_cut(1 - request.within)} of {online_gain(request)}. {_advice(request, noun)}",
        met=False,
    )


def _advice(request: Request, noun: Noun) -> str:
    """Return advice on how to earn more."""
    if request.model.conduct.delay:
        return "Fully online assumes that outcomes arrive at once; here they arrive late."
    if request.limits.waves is not None:
        return "More and smaller waves may earn more."
    return f"{more(noun).capitalize()} or looser limits may earn more."


def _asked(request: Request, rows: Sequence[Row], online: Row, noun: Noun) -> Choice:
    """Return the requested number, and how it compares with the target."""
    row = next(one for one in rows if one.batches == request.batches)
    enough = 1 - request.within
    gain = _most(request) - online.regret
    met = gain <= 2 * online.error or _reaches(request, row, online)
    reason = f"{counted(len(row.sizes), noun).capitalize()}, as requested"
    if gain > 2 * online.error:
        reason += (
            f", earn{'s' * (len(row.sizes) == 1)} {percent_cut(_share(request, row, online))} of "
            f"{online_gain(request)}; the target of {percent_cut(enough)} is "
            f"{'' if met else 'not '}reached"
        )
    return Choice(batches=len(row.sizes), reason=f"{reason}.", met=met)


def _cheapest(rows: Sequence[Row], noun: Noun) -> Choice:
    row = min(rows, key=lambda one: one.total_cost)
    reason = (
        f"Recommended: the number of {plural(noun)} with the lowest total cost, the regret and the "
        f"{plural(noun)} together"
    )
    if row is rows[-1] and len(rows) > 1:
        reason += f"; it is the last row of the table, so {more(noun)} might cost less"
    return Choice(batches=len(row.sizes), reason=f"{reason}.", met=None)

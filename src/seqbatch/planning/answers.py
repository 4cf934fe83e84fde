"""The answers to a request: by simulation where contexts are stochastic, else by the theorems."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from seqbatch import grids
from seqbatch.grids import Grid
from seqbatch.planning.best_grids import best_grids
from seqbatch.planning.choosing import choose
from seqbatch.planning.costs import row, sensitivity
from seqbatch.planning.guarantee import choose_guarantee, guarantee
from seqbatch.planning.online import online_row
from seqbatch.planning.policy_candidates import GREEDY, candidates, preferred, ucb
from seqbatch.planning.request import Request
from seqbatch.planning.result import Plan
from seqbatch.policies.base import LinearPolicy

#: Is told which share of the work is done.
Report = Callable[[float], None]


def silent(_: float) -> None:
    """Tell nobody."""


def stochastic(
    request: Request, *, policy: LinearPolicy | None = None, progress: Report = silent
) -> Plan:
    """Answer by simulation; policies are compared unless one is given, or time is short."""
    if request.quick:
        policy = policy or GREEDY
    # Beside the grids, two steps: fully online, and the policies.
    steps = len(request.numbers) + 2
    found = best_grids(request, lambda grids: progress(grids / steps))
    online = online_row(request, found.values())
    progress(1 - 1 / steps)
    rows = [row(request, sizes, online.regret) for sizes in found.values()]
    choice = choose(request, rows, online)
    chosen = next(one for one in rows if one.batches == choice.batches)
    made = candidates(request.model, chosen, seed=request.seed) if policy is None else ()
    progress(1.0)
    return Plan(
        request=request,
        contexts="stochastic",
        grid=_grid(chosen.sizes),
        policy=policy or preferred(made),
        reason=choice.reason,
        met=choice.met,
        rows=tuple(rows),
        online=online,
        candidates=made,
        # What was learned from outcomes is no guess.
        wrong_guesses=tuple
        if request.model.past is not None
        else partial(sensitivity, request, chosen.sizes),
    )


def adversarial(request: Request) -> Plan:
    """Answer by the theorems alone: which contexts will come is not known.

    More batches are always better then, so the most are chosen unless batches have a cost.
    """
    rows = [guarantee(request, number) for number in request.numbers]
    choice = choose_guarantee(request, rows)
    chosen = next(one for one in rows if one.batches == choice.batches)
    return Plan(
        request=request,
        contexts="adversarial",
        grid=_grid(chosen.sizes),
        policy=ucb(request.model, request.limits.units),
        reason=choice.reason,
        met=choice.met,
        rows=tuple(rows),
        online=guarantee(request, None),
        candidates=(),
        # The guarantee does not depend on the effect, so that there is none to guess wrong.
        wrong_guesses=tuple,
    )


def _grid(sizes: Sequence[int]) -> Grid:
    return grids.explicit(int(end) for end in np.cumsum(sizes))

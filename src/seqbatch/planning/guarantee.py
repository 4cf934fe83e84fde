"""The theorems' guarantees: the rows of a plan for adversarial contexts."""

import math
from collections.abc import Sequence

import numpy as np

from seqbatch import grids, theory
from seqbatch.display import counted, plural
from seqbatch.planning.number_of_batches import Choice, Noun, more
from seqbatch.planning.request import Request
from seqbatch.planning.result_rows import Row


def guarantee(request: Request, batches: int | None) -> Row:
    """Return Theorem 1's guarantee for equal batches, for mean rewards in [-1, 1] times the noise.

    It is NaN if it does not exclude the worst possible loss.
    """
    promises = request.promises
    largest = 1
    sizes: tuple[int, ...] = ()
    bound = cost = math.nan
    if batches is not None:
        sizes = request.limits.fit(_equal(request.limits.units, batches))
        largest = max(sizes)
        if promises.dim > 1:
            ends = np.cumsum(sizes).tolist()
            bound = promises.noise * theory.adversarial_lower_bound_on(ends, dim=promises.dim)
    promised = promises.of(largest)
    if batches is not None and request.batch_cost is not None:
        # Without a guarantee, everything may be lost.
        worst = promises.most_lost if math.isnan(promised) else promised
        cost = worst + request.batch_cost * batches
    return Row(
        batches=batches,
        sizes=sizes,
        regret=math.nan,
        error=math.nan,
        median=math.nan,
        of_online=promised / promises.of(1),
        earned=math.nan,
        best_share=math.nan,
        lower_bound=bound,
        rate=promised,
        total_cost=cost,
    )


def choose_guarantee(request: Request, rows: Sequence[Row], *, noun: Noun = "batch") -> Choice:
    """Return the requested number, the cheapest, or the largest: more never guarantee less."""
    if request.batches is not None:
        asked = counted(request.batches, noun).capitalize()
        return Choice(batches=request.batches, reason=f"{asked}, as requested.", met=None)
    if request.batch_cost is not None:
        cheapest = min(rows, key=lambda one: one.total_cost)
        return Choice(
            batches=len(cheapest.sizes),
            reason=f"Recommended: the number of {plural(noun)} with the lowest total cost in the "
            "worst case.",
            met=None,
        )
    return Choice(
        batches=len(rows[-1].sizes),
        reason=f"Use as many {plural(noun)} as you can: with arbitrary contexts, {more(noun)} "
        "never weaken the guarantee. This plan is the last row of the table, not an optimum.",
        met=None,
    )


def _equal(units: int, batches: int) -> list[float]:
    return [float(end) for end in grids.uniform(units=units, batches=batches).ends]

"""What the theorems guarantee: the rows of an adversarial plan's table."""

import math
from collections.abc import Sequence

import numpy as np

from seqbatch import grids, theory
from seqbatch.display import counted
from seqbatch.planning.choosing import Choice
from seqbatch.planning.model import Model
from seqbatch.planning.request import Request
from seqbatch.planning.result import Row


def guarantee(request: Request, batches: int | None) -> Row:
    """Return what Theorem 1 says of equal batches, for mean rewards in [-1, 1] times the noise.

    A promise of as much as can be lost at all is none, and NaN.
    """
    level = max(noise for _, noise in request.model.scenarios)
    dim = dimensions(request.model)
    largest = 1
    sizes: tuple[int, ...] = ()
    bound = cost = math.nan
    if batches is not None:
        sizes = request.limits.fit(_equal(request.limits.units, batches))
        largest = max(sizes)
        if dim > 1:
            ends = np.cumsum(sizes).tolist()
            bound = level * theory.adversarial_lower_bound_on(ends, dim=dim)
    promised = promise(request, largest)
    if batches is not None and request.batch_cost is not None:
        # Without a promise all may be lost.
        worst = most_lost(request) if math.isnan(promised) else promised
        cost = worst + request.batch_cost * batches
    return Row(
        batches=batches,
        sizes=sizes,
        regret=math.nan,
        error=math.nan,
        of_online=promised / promise(request, 1),
        earned=math.nan,
        best_share=math.nan,
        lower_bound=bound,
        rate=promised,
        total_cost=cost,
    )


def dimensions(model: Model) -> int:
    """Return the d of Theorem 1: that of all actions' models together."""
    return model.dim * (1 if model.layout == "shared" else model.actions)


def most_lost(request: Request) -> float:
    """Return the most that can be lost: the range of the mean rewards, unit by unit."""
    return 2.0 * request.limits.units * max(noise for _, noise in request.model.scenarios)


def promise(request: Request, largest: int) -> float:
    """Return Theorem 1's bound for batches of up to `largest` units; NaN where it is vacuous."""
    model, units = request.model, request.limits.units
    # Proved for equal batches: as many of the largest size as hold all units, and some more.
    number = -(-units // largest)
    bound = max(noise for _, noise in model.scenarios) * theory.sbucb_upper_bound(
        units=number * largest, dim=dimensions(model), actions=model.actions, batches=number
    )
    return bound if bound < most_lost(request) else math.nan


def first_promise(request: Request) -> int | None:
    """Return how many batches Theorem 1 needs to promise anything; None if none are enough."""
    if math.isnan(promise(request, 1)):
        return None
    low, high = 1, request.limits.units
    # The largest batch with which there still is a promise; a larger one promises less.
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if math.isnan(promise(request, middle)) else (middle, high)
    return -(-request.limits.units // low)


def choose_guarantee(request: Request, rows: Sequence[Row]) -> Choice:
    """Return the number asked for, the cheapest, or the most: more never promise less."""
    if request.batches is not None:
        asked = counted(request.batches, "batch").capitalize()
        return Choice(batches=request.batches, reason=f"{asked}, as asked for.", met=None)
    if request.batch_cost is not None:
        cheapest = min(rows, key=lambda one: one.total_cost)
        return Choice(
            batches=len(cheapest.sizes),
            reason="Recommended as the number of batches of least total cost in the worst case.",
            met=None,
        )
    return Choice(
        batches=len(rows[-1].sizes),
        reason="This is the table's last row, not an optimum: where contexts are arbitrary, more "
        "batches never guarantee less. Take as many as you can (max_batches).",
        met=None,
    )


def _equal(units: int, batches: int) -> list[float]:
    return [float(end) for end in grids.uniform(units=units, batches=batches).ends]

"""What the theorems guarantee: the rows of an adversarial plan's table."""

import math

import numpy as np

from seqbatch import grids, theory
from seqbatch.planning.request import Request
from seqbatch.planning.result import Row


def guarantee(request: Request, batches: int | None) -> Row:
    """Return what Theorem 1 says of equal batches, for mean rewards in [-1, 1] times the noise."""
    model, units = request.model, request.limits.units
    dim = model.dim * (1 if model.layout == "shared" else model.actions)
    level = max(noise for _, noise in model.scenarios)

    def promise(largest: int) -> float:
        # Proved for equal batches: as many of the largest size as hold all units, and some more.
        number = -(-units // largest)
        bound = theory.sbucb_upper_bound(
            units=number * largest, dim=dim, actions=model.actions, batches=number
        )
        # No unit can lose more than the range of the means.
        return level * min(bound, 2.0 * units)

    largest = 1
    sizes: tuple[int, ...] = ()
    bound = cost = math.nan
    if batches is not None:
        sizes = request.limits.fit(_equal(units, batches))
        largest = max(sizes)
        if dim > 1:
            ends = np.cumsum(sizes).tolist()
            bound = level * theory.adversarial_lower_bound_on(ends, dim=dim)
        if request.batch_cost is not None:
            cost = promise(largest) + request.batch_cost * batches
    return Row(
        batches=batches,
        sizes=sizes,
        regret=math.nan,
        error=math.nan,
        of_online=promise(largest) / promise(1),
        earned=math.nan,
        best_share=math.nan,
        lower_bound=bound,
        rate=promise(largest),
        total_cost=cost,
    )


def _equal(units: int, batches: int) -> list[float]:
    return [float(end) for end in grids.uniform(units=units, batches=batches).ends]

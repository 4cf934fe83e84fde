"""Test whether grids of 40 batches need a third parameter besides the first end and the bend.

`python -m benchmarks.third_number` prints, for two settings, the regret of the planned grid, and
of the best grid found when its ends may also be bent by waves of one, two and three half periods,
tuned on the plan's own trials for tuning and judged on others.
"""

from typing import Any

import numpy as np

from benchmarks.progress import say
from seqbatch.planning import plan
from seqbatch.planning.request import Request, Sizes

BATCHES = 40
SETTINGS: tuple[dict[str, Any], ...] = (
    {"units": 20_000, "actions": 3, "features": 4, "effect": 0.2},
    {"units": 100_000, "actions": 5, "dim": 10, "effect": 0.3},
)
#: By how much ends are moved at most, on the logarithmic scale.
HEIGHTS = (-0.6, -0.3, -0.1, 0.1, 0.3, 0.6)


def bent(request: Request, sizes: Sizes) -> Sizes:
    """Return the best grid that waves of several periods make of one."""
    best = sizes
    along = np.linspace(0, np.pi, len(sizes))
    for periods in (1, 2, 3):
        ends = np.log(np.cumsum(best))
        for height in HEIGHTS:
            moved = np.maximum.accumulate(ends + height * np.sin(periods * along))
            other = request.limits.fit(np.exp(moved).tolist())
            if request.tried(other).sum() < request.tried(best).sum():
                best = other
    return best


def main() -> None:
    """Print a line for each setting."""
    for asked in SETTINGS:
        made = plan(**asked, effect_spread=1, batches=BATCHES, max_batches=BATCHES)
        request, sizes = made.request, made.grid.sizes
        other = bent(request, sizes)
        found = [request.judged(one).totals(one) for one in (sizes, other)]
        more = found[1].weight * found[1].lost - found[0].weight * found[0].lost
        error = more.std(ddof=1) / np.sqrt(len(more))
        say(
            f"{asked}: {found[0].mean()[0]:.1f} with two numbers, {found[1].mean()[0]:.1f} bent "
            f"further (difference {more.mean():+.1f} ± {error:.1f}); last batch {sizes[-1]:,}, "
            f"smallest {min(sizes):,}"
        )


if __name__ == "__main__":
    main()

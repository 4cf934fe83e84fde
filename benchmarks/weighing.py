"""Compare two ways to tune grids for several effects: by relative regret, or by regret.

`python -m benchmarks.weighing` prints, for three settings and three seeds, what the grid of either
way costs where the true effect is a quarter of the guess to four times it, relative to the best
grid for that effect: the mean over the law, and the worst.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.progress import say
from seqbatch.core.arrays import Floats
from seqbatch.planning import plan
from seqbatch.planning.best_grids import tuned, weighing
from seqbatch.planning.regret import FACTORS
from seqbatch.planning.request import Request, Sizes

SETTINGS: tuple[dict[str, Any], ...] = (
    {"units": 20_000, "actions": 3, "features": 4, "effect": 0.1, "batches": 4},
    {"units": 5_000, "actions": 2, "features": 8, "effect": 0.3, "batches": 3},
    {"units": 20_000, "actions": 5, "dim": 10, "effect": 0.3, "batches": 3},
)
SEEDS = (0, 1, 2)


def costs(request: Request, sizes: Sizes) -> Floats:
    """Return what a grid costs relative to the best one, for each factor of the guess."""
    ratios = []
    [guess] = request.law.guesses
    for factor in FACTORS:
        truth = ((factor * guess, request.model.scenarios[0][1]),)
        other = replace(request, model=replace(request.model, scenarios=truth, weights=()))
        [best, *_], _ = tuned(other, len(sizes), lambda regrets: float(regrets.sum()), None)
        lost, least = (other.judged(one).total(one)[0] for one in (sizes, best))
        ratios.append(lost / min(lost, least))
    return np.array(ratios)


def main() -> None:
    """Print a line for each setting, seed and way."""
    for asked in SETTINGS:
        for seed in SEEDS:
            number = asked["batches"]
            request = plan(**asked, max_batches=2, seed=seed).request
            ways = {
                "relative": weighing(request, number, None),
                "plain": lambda regrets: float(regrets.sum()),
            }
            for name, weigh in ways.items():
                [sizes, *_], _ = tuned(request, number, weigh, None)
                found = costs(request, sizes)
                shown = ", ".join(f"{value:.2f}" for value in found)
                say(f"{asked} seed {seed} {name:8} {sizes}: {shown}; mean {found.mean():.3f}, "
                    f"worst {found.max():.2f}")  # fmt: skip


if __name__ == "__main__":
    main()

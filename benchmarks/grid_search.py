"""Compare the batch sizes of plans with those of a long search over all sizes.

`python -m benchmarks.grid_search` prints a line for each setting, with late outcomes and limits on
batches; `python -m benchmarks.planning sizes` writes them to docs/plan-accuracy.md. The long search
starts from hundreds of random grids on trials of its own; both grids are judged on further trials.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.progress import paragraph, say
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats
from seqbatch.planning import Plan, plan, replan
from seqbatch.planning.request import BatchLimits, Sizes
from seqbatch.planning.trials import Trials

#: Arguments of plans; `seen` is the number of units before a new plan for the rest.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"units": 5_000, "actions": 3, "features": 6, "effect": 1, "batches": 3, "delay": 1,
     "effect_spread": 2.5},
    {"units": 5_000, "actions": 3, "features": 2, "effect": 0.3, "batches": 5, "delay": 1},
    {"units": 20_000, "actions": 2, "features": 3, "effect": 0.2, "batches": 6, "delay": 2},
    {"units": 2_000, "actions": 4, "features": 0, "effect": 0.3, "batches": 4, "delay": 1},
    {"units": 50_000, "actions": 5, "dim": 8, "effect": 0.2, "batches": 8, "delay": 1},
    {"units": 12_000, "actions": 4, "features": 3, "effect": 0.4, "batches": 8, "max_batch": 2_400},
    {"units": 10_000, "actions": 2, "features": 10, "effect": 0.5, "batches": 6, "delay": 1,
     "max_batch": 3_000},
    {"units": 20_000, "actions": 3, "features": 4, "effect": 0.2, "batches": 6, "delay": 1,
     "min_batch": 300},
    {"units": 20_000, "actions": 3, "features": 4, "effect": 0.2, "batches": 8, "delay": 2,
     "waves": [500] * 20 + [1_000] * 10},
    {"units": 5_000, "actions": 3, "features": 6, "effect": 0.3, "batches": 5, "delay": 1,
     "missing": 0.4, "randomised": 0.1},
    {"units": 30_000, "actions": 2, "features": 4, "effect": 0.1, "batches": 12, "delay": 3},
    {"units": 20_000, "actions": 3, "features": 4, "effect": 0.2, "batches": 5, "delay": 1,
     "seen": 1_000},
)  # fmt: skip
#: The number of random grids, of those to improve, and the factors by which sizes are changed.
RANDOM, IMPROVED, FACTORS = 300, 6, (3.0, 1.7, 1.3, 1.15, 1.08)
#: The trials of the long search and of the comparison: their numbers and seeds.
SEARCHED, COMPARED = (400, 7_771), (2_000, 8_882)
#: Without features trials are cheap, and few of them lose anything.
SIMPLE = 20

#: The cost of a grid.
Cost = Callable[[Sizes], float]


def planned(asked: dict[str, Any]) -> Plan:
    """Return the plan for a setting, or the new plan for the rest of an experiment."""
    asked = {"effect_spread": 1, **asked}
    seen, batches = asked.pop("seen", None), asked["batches"]
    if seen is None:
        return plan(**asked, max_batches=batches, compare=False)
    before = plan(**{**asked, "batches": 2}, max_batches=2, compare=False)
    rng, cells, dim = np.random.default_rng(1), asked["actions"], 1 + asked["features"]
    rows = np.column_stack([np.ones(seen), rng.standard_normal((seen, dim - 1))])
    actions = rng.integers(0, cells, seen)
    theta = before.model.spread(asked["effect"]) * rng.standard_normal((cells, dim))
    rewards = (rows * theta[actions]).sum(axis=1) + rng.standard_normal(seen)
    known = Statistics.zero(cells=cells, dim=dim).add(rows, rewards, actions)
    return replan(before, seen=seen, statistics=known, batches=batches, max_batches=batches)


def long_search(cost: Cost, limits: BatchLimits, number: int, start: Sizes) -> Sizes:
    """Return the best grid found from many starts."""
    rng = np.random.default_rng(1)
    pool = dict.fromkeys([start, *(_random(rng, limits, number) for _ in range(RANDOM))])
    best = sorted(pool, key=cost)[:IMPROVED]
    return min((_improved(cost, limits, sizes) for sizes in best), key=cost)


def _random(rng: np.random.Generator, limits: BatchLimits, number: int) -> Sizes:
    """Return a grid with sizes of all magnitudes; some are as small as possible."""
    sizes = np.exp(rng.uniform(0, math.log(limits.units), number))
    sizes[rng.choice(number, rng.integers(number), replace=False)] = 1
    sizes *= limits.units / sizes.sum()
    return limits.fit(np.cumsum(sizes).tolist())


def _improved(cost: Cost, limits: BatchLimits, sizes: Sizes) -> Sizes:
    """Move units between any two batches, as long as that reduces the cost."""
    number = len(sizes)
    for factor in FACTORS:
        improved = True
        while improved:
            improved = False
            for one in range(number):
                largest = max(range(number), key=sizes.__getitem__)
                for other in {largest, one - 1, (one + 1) % number} - {one, -1}:
                    for size in (math.ceil(sizes[one] * factor), int(sizes[one] / factor)):
                        moved = np.array(sizes)
                        moved[[one, other]] += [size - sizes[one], sizes[one] - size]
                        fitted = limits.fit(np.cumsum(moved).tolist())
                        if moved.min() > 0 and cost(fitted) < cost(sizes):
                            sizes, improved = fitted, True
    return sizes


def parts(trials: Trials) -> Callable[[Sizes], Floats]:
    """Return the function from sizes to each effect's part of the regret."""
    return cache(lambda sizes: trials.rates(sizes).by_scenario(sizes))


def compared(asked: dict[str, Any]) -> tuple[Plan, Sizes, float, float]:
    """Return the plan, the sizes of the long search, and the cost of either.

    The cost is expected regret or, if the effect is uncertain, the mean of the regret relative to
    the least that the long search finds for each effect.
    """
    made = planned(asked)
    limits, start = made.request.limits, made.grid.sizes
    times = SIMPLE if made.model.dim == 1 else 1
    searched, judged = (
        parts(made.model.ensemble(times * number, seed=seed, points=256))
        for number, seed in (SEARCHED, COMPARED)
    )
    weights = np.array(made.model.weights)
    if made.model.past is not None or len(weights) == 1:
        found = long_search(lambda sizes: float(searched(sizes).sum()), limits, len(start), start)
        return made, found, float(judged(start).sum()), float(judged(found).sum())
    least = [
        long_search(lambda sizes, n=n: float(searched(sizes)[n]), limits, len(start), start)  # type: ignore[misc]
        for n in range(len(weights))
    ]

    def relative(costs: Callable[[Sizes], Floats]) -> Cost:
        lost = np.array([costs(sizes)[n] for n, sizes in enumerate(least)])
        return lambda sizes: float(weights @ (costs(sizes) / lost))

    found = long_search(relative(searched), limits, len(start), start)
    return made, found, relative(judged)(start), relative(judged)(found)


def line(asked: dict[str, Any]) -> str:
    """Return a line of the table."""
    made, found, cost, least = compared(asked)
    text = ", ".join(
        f"{name} {value:,}" if not isinstance(value, list) else f"{name} of {_runs(value)}"
        for name, value in asked.items()
    )
    sizes = (", ".join(f"{size:,}" for size in one) for one in (made.grid.sizes, found))
    costs = (f"{value:.3g}" if value < 10 else f"{value:,.0f}" for value in (cost, least))
    return f"| {text} | {' | '.join(sizes)} | {' | '.join(costs)} | {cost / least - 1:+.1%} |"


def _runs(waves: list[int]) -> str:
    return " and ".join(f"{waves.count(size)} x {size:,}" for size in dict.fromkeys(waves))


def table() -> list[str]:
    """Return the section: one line for each setting."""
    lines = [
        *paragraph(
            "Sizes of batches from plans, and from a long search over all sizes from "
            f"{RANDOM} random grids, on trials of its own. Both are judged on further trials, the "
            "same for both; small differences are noise of the trials. The cost is the expected "
            "regret; with effect_spread, it is the mean over the effects of the regret relative to "
            "the least found for each. With `seen`, the plan is for the rest of an experiment."
        ),
        "| plan | planned sizes | sizes of the long search | cost | cost | more |",
        "|---" * 6 + "|",
    ]
    for asked in SETTINGS:
        lines.append(line(asked))
        say(lines[-1])
    return lines


if __name__ == "__main__":
    table()

"""What replanning saves after a wrong guess of the effect, in simulated campaigns.

Writes docs/replanning.md. Every campaign runs unit by unit, with its own contexts, parameters and
noise, under six arms that see the same units: planned for the stated effect as if certain, planned
for the true effect, replanned after each wave, with the best sizes for the true effect after the
first wave, and planned for a distribution of effects around the stated one, without and with
replanning.
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.replanning_page import Setting, described, page
from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.planning import Plan, plan
from seqbatch.planning.replanning import EXPLORED, Option, Tried, propose

UNITS, ACTIONS, DIM, WAVES = 20_000, 3, 4, 4
EFFECT, NOISE = 0.2, 1.0
FACTORS = (1 / 8, 1 / 4, 1.0, 4.0, 8.0)
CAMPAIGNS = 200
#: From here on: the thresholds of a proposal were chosen with lower ones in sight.
FIRST_SEED = 1_000
#: Campaigns whose results are kept together.
PIECE = 20
PAGE = Path("docs/replanning.md")

#: Given what was seen and what is planned: the sizes to come, and the share of the next at random.
Chooser = Callable[[Statistics, int, tuple[int, ...]], tuple[tuple[int, ...], float]]


@cache
def planned(layout: str, effect: float, spread: float | None = 1) -> Plan:
    block = layout == "block"
    return plan(
        units=UNITS, actions=ACTIONS, batches=WAVES, max_batches=WAVES, effect=effect,
        effect_spread=spread, noise=NOISE, features=DIM - 1 if block else None,
        dim=None if block else DIM,
    )  # fmt: skip


@cache
def told(layout: str, factor: float) -> Option:
    """Return the best way on after the stated plan's first wave, for the true effect."""
    right, first = planned(layout, EFFECT), planned(layout, factor * EFFECT).grid.sizes[0]
    request = right.request
    tried = Tried(
        tuning=request.tuning,
        judging=request.judging,
        limits=replace(request.limits, first=first),
        least=request.least_first,
    )
    planned_sizes = planned(layout, factor * EFFECT).grid.sizes
    options = [Option(request.judging, planned_sizes, 0.0), *tried.best(WAVES, EXPLORED)]
    return min(options, key=lambda option: option.regret)


class World:
    """One campaign's units: what each would bring under every action, and the draws of chance."""

    def __init__(self, layout: str, seed: int) -> None:
        random = np.random.default_rng([seed, len(layout)])
        spread = planned(layout, EFFECT).model.spread(EFFECT)
        self.models = ACTIONS if layout == "block" else 1
        theta = spread * random.standard_normal((self.models, DIM))
        shape = (UNITS, 1, DIM) if layout == "block" else (UNITS, ACTIONS, DIM)
        self.rows = np.broadcast_to(random.standard_normal(shape), (UNITS, ACTIONS, DIM)).copy()
        if layout == "block":
            self.rows[..., 0] = 1.0
        self.means = np.einsum("nad,ad->na", self.rows, np.broadcast_to(theta, (ACTIONS, DIM)))
        self.noise = NOISE * random.standard_normal(UNITS)
        self.by_chance = random.integers(0, ACTIONS, UNITS)
        self.chance = random.random(UNITS)

    def run(self, sizes: tuple[int, ...], choose: Chooser) -> float:
        """Return the regret of a campaign, whose waves to come are chosen anew after each."""
        known, seen, lost, explored = Statistics.zero(self.models, DIM), 0, 0.0, 1.0
        while sizes:
            units = np.arange(seen, seen + sizes[0])
            actions = self._actions(units, known, explored)
            lost += float((self.means[units].max(axis=1) - self.means[units, actions]).sum())
            rewards = self.means[units, actions] + self.noise[units]
            cells = actions if self.models > 1 else np.zeros_like(actions)
            known = known.add(self.rows[units, actions], rewards, cells)
            seen, sizes, explored = seen + sizes[0], sizes[1:], 0.0
            if len(sizes) > 1:
                sizes, explored = choose(known, seen, sizes)
        return lost

    def _actions(self, units: Integers, known: Statistics, explored: float) -> Integers:
        """Return the greedy actions, and random ones for a share of the units."""
        fits = np.stack(
            [
                np.linalg.lstsq(gram, moment, rcond=1e-10)[0]
                for gram, moment in zip(known.gram, known.moment, strict=True)
            ]
        )
        fits = np.broadcast_to(fits, (ACTIONS, DIM))
        greedy = np.einsum("nad,ad->na", self.rows[units], fits).argmax(axis=1)
        return np.where(self.chance[units] < explored, self.by_chance[units], greedy)


def as_planned(_: Statistics, __: int, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], float]:
    return sizes, 0.0


def replanned(
    stated: Plan, known: Statistics, seen: int, sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], float]:
    covariance = np.eye(DIM) if known.cells == 1 else None
    found = propose(
        stated.model, stated.request.law, seen=seen, statistics=known, sizes=sizes,
        covariance=covariance,
    )  # fmt: skip
    return found.sizes, found.explored


def told_after_first(
    best: Option, _: Statistics, seen: int, sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], float]:
    return (best.sizes[1:], best.explored) if seen == best.sizes[0] else (sizes, 0.0)


def campaign(setting: Setting, seed: int) -> Floats:
    """Return the regret of one campaign under each of the arms."""
    with threadpool_limits(1):
        layout, world = setting.layout, World(setting.layout, seed)
        stated, right = planned(layout, setting.factor * EFFECT), planned(layout, EFFECT)
        best = told(layout, setting.factor)
        sizes = stated.grid.sizes
        usual = planned(layout, setting.factor * EFFECT, None)
        return np.array(
            [
                world.run(sizes, as_planned),
                world.run(right.grid.sizes, as_planned),
                world.run(sizes, partial(replanned, stated)),
                world.run(best.sizes, partial(told_after_first, best)),
                world.run(usual.grid.sizes, as_planned),
                world.run(usual.grid.sizes, partial(replanned, usual)),
            ]
        )


def measured(setting: Setting, campaigns: int, jobs: int, keep: Path | None) -> Floats:
    """Return the regret of every campaign under each arm."""
    pieces = [range(start, min(start + PIECE, campaigns)) for start in range(0, campaigns, PIECE)]
    with ProcessPoolExecutor(jobs) as pool:
        return np.concatenate(list(pool.map(partial(some, setting, keep), pieces)))


def some(setting: Setting, keep: Path | None, seeds: range) -> Floats:
    """Return what some campaigns lose, as an earlier run kept it where there was one."""
    name = f"{setting.layout}-{setting.factor:g}-{seeds.start}-{seeds.stop}.npy"
    if keep is not None and (keep / name).exists():
        found: Floats = np.load(keep / name)
        return found
    lost = np.array([campaign(setting, FIRST_SEED + seed) for seed in seeds])
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        np.save(keep / name, lost)
    return lost


def main() -> None:
    """Run every setting and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS, help="how many a setting")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--factors", type=float, nargs="+", default=FACTORS)
    parser.add_argument("--layouts", nargs="+", default=("shared", "block"))
    parser.add_argument("--keep", type=Path, help="a folder to keep results in, and resume from")
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    results: dict[Setting, Floats] = {}
    for setting in [Setting(layout, f) for layout in asked.layouts for f in asked.factors]:
        start = time.perf_counter()
        results[setting] = measured(setting, asked.campaigns, asked.jobs, asked.keep)
        row = described(setting, results[setting])
        print(row, f"{time.perf_counter() - start:.0f} s", flush=True)
    written = page(
        results, units=UNITS, actions=ACTIONS, waves=WAVES, effect=EFFECT, noise=NOISE, dim=DIM,
        features=DIM - 1,
    )  # fmt: skip
    asked.out.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()

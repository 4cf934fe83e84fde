"""What replanning saves where the effect was misjudged, on simulated campaigns: docs/replanning.md.

Every campaign is run unit by unit, on its own contexts, parameters and noise: as planned for the
stated effect, as planned for the true one, replanned after each wave, and with the best sizes after
the first wave for somebody who is told the true effect then. All four see the same units.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from seqbatch.core import Statistics
from seqbatch.core.arrays import Floats, Integers
from seqbatch.planning import Plan, plan
from seqbatch.planning.replanning import EXPLORED, Option, best_option, propose

UNITS, ACTIONS, DIM, WAVES = 20_000, 3, 4, 4
EFFECT, NOISE = 0.2, 1.0
FACTORS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
CAMPAIGNS = 200
PAGE = Path("docs/replanning.md")
ARMS = ("as planned", "right plan", "replanned", "told")

#: Given what was seen and what is planned: the sizes to come, and the share of the next at random.
Chooser = Callable[[Statistics, int, tuple[int, ...]], tuple[tuple[int, ...], float]]


@dataclass(frozen=True)
class Setting:
    """A layout, and the stated effect over the true one."""

    layout: str
    factor: float


@cache
def planned(layout: str, effect: float) -> Plan:
    size = {"features": DIM - 1} if layout == "block" else {"dim": DIM}
    return plan(
        units=UNITS, actions=ACTIONS, batches=WAVES, max_batches=WAVES, effect=effect, **size
    )


@cache
def told(layout: str, factor: float) -> Option:
    """Return the best way on after the stated plan's first wave, for the true effect."""
    right, first = planned(layout, EFFECT), planned(layout, factor * EFFECT).grid.sizes[0]
    request = right.request
    request = replace(request, limits=replace(request.limits, first=first))
    options = [best_option(request, WAVES, share) for share in EXPLORED]
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
            [np.linalg.lstsq(g, b, rcond=1e-10)[0] for g, b in zip(known.gram, known.moment)]
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
    found = propose(stated.model, seen=seen, statistics=known, sizes=sizes, covariance=covariance)
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
        return np.array(
            [
                world.run(sizes, as_planned),
                world.run(right.grid.sizes, as_planned),
                world.run(sizes, partial(replanned, stated)),
                world.run(best.sizes, partial(told_after_first, best)),
            ]
        )


def share(part: Floats, whole: Floats) -> tuple[float, float]:
    """Return a ratio of means over campaigns, and its standard error (the delta method)."""
    value = float(part.mean() / whole.mean())
    error = float((part - value * whole).std(ddof=1) / math.sqrt(len(part)) / abs(whole.mean()))
    return value, error


def described(setting: Setting, lost: Floats) -> str:
    """Return a setting's row of the table."""
    first = planned(setting.layout, setting.factor * EFFECT).grid.sizes
    means = [f"{column.mean():.0f} ± {column.std(ddof=1) / len(column) ** 0.5:.0f}" for column in lost.T]
    saved, loss, possible = lost[:, 0] - lost[:, 2], lost[:, 0] - lost[:, 1], lost[:, 0] - lost[:, 3]
    if setting.factor == 1:
        value, error = share(-saved, lost[:, 1])
        verdict = f"costs {value:.1%} ± {error:.1%}"
        cells = [verdict, ""]
    else:
        cells = ["{:.0%} ± {:.0%}".format(*share(saved, loss)), "{:.0%} ± {:.0%}".format(*share(possible, loss))]
    sizes = ", ".join(f"{size:,}" for size in first)
    return f"| {setting.layout} | {setting.factor:g} | {sizes} | {' | '.join([*means, *cells])} |"


def rows(settings: list[Setting], campaigns: int, jobs: int) -> Iterator[str]:
    """Yield the table's rows as they are done."""
    with ProcessPoolExecutor(jobs) as pool:
        for setting in settings:
            start = time.perf_counter()
            lost = np.array(list(pool.map(partial(campaign, setting), range(campaigns), chunksize=5)))
            line = described(setting, lost)
            print(line, f"{time.perf_counter() - start:.0f} s", flush=True)
            yield line


def main() -> None:
    """Run every setting and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=CAMPAIGNS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--factors", type=float, nargs="*", default=FACTORS)
    parser.add_argument("--out", type=Path, default=PAGE)
    asked = parser.parse_args()
    settings = [Setting(layout, f) for layout in ("shared", "block") for f in asked.factors]
    table = list(rows(settings, asked.campaigns, asked.jobs))
    asked.out.write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

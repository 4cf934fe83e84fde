"""Compare what plans predict with what happens, and time them; write docs/plan-accuracy.md.

`python -m benchmarks.planning` runs every section. Name sections to run only those and keep the
others: regret, conduct, sizes, errors, power, data, seconds.
"""

import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import detection, grid_search, real_data
from benchmarks.progress import paragraph, say
from benchmarks.worlds import COORDINATES, world
from seqbatch.errors import RankDeficiencyWarning
from seqbatch.planning import Plan, Sample, plan
from seqbatch.policies import SBPE
from seqbatch.simulation import simulate

PAGE = Path("docs/plan-accuracy.md")
TRIALS = 150

SETTINGS: tuple[dict[str, Any], ...] = (
    {"units": 20_000, "actions": 10, "dim": 10, "effect": 0.4, "batches": 3},
    {"units": 5_000, "actions": 2, "dim": 5, "effect": 0.3, "batches": 2},
    {"units": 20_000, "actions": 4, "dim": 20, "effect": 0.5, "batches": 4},
    {"units": 20_000, "actions": 3, "features": 12, "effect": 0.2, "batches": 3},
    {"units": 5_000, "actions": 2, "features": 3, "effect": 0.3, "batches": 2},
    {"units": 20_000, "actions": 5, "features": 6, "effect": 0.35, "batches": 4},
    {"units": 10_000, "actions": 2, "features": 25, "effect": 0.4, "batches": 3},
    {"units": 8_000, "actions": 4, "features": 2, "effect": 0.3, "batches": 5},
)
CONDUCTED = 300
CONDUCTS: tuple[dict[str, Any], ...] = (
    {},
    {"randomised": 0.3},
    {"floor": 0.05},
    {"missing": 0.5},
    {"delay": 1},
    {"max_batch": 2_000},
    {"min_batch": 500},
    {"randomised": 0.2, "floor": 0.02, "missing": 0.3, "delay": 1, "min_batch": 300},
    {"eligible": [1, 0.6, 0.3]},
    {"capacity": [1, 0.1, 0.25]},
    {"eligible": [1, 0.7, 0.5], "capacity": [1, 0.1, 0.2], "randomised": 0.2},
)
GREEDY = SBPE(first="uniform", ties="random")


def directly(made: Plan, law: str) -> tuple[float, float]:
    """Return the mean regret unit by unit, and its standard error."""
    environment = world(made.model, law)
    runs = [
        simulate(GREEDY, environment, made.grid, seed=seed, method="direct", learn_last=False)
        for seed in range(TRIALS)
    ]
    totals = np.array([run.regret[-1] for run in runs])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(TRIALS))


def agreement() -> list[str]:
    """Return one line for each setting: the prediction, and each law's direct simulation."""
    laws = list(COORDINATES)
    lines = [
        *paragraph(
            "Predicted regret, and by how much regret simulated unit by unit deviates in "
            f"{TRIALS} trials, with coordinates of variance 1 from several distributions. The "
            "prediction assumes normal coordinates; standard errors are 1% to 8%."
        ),
        f"| plan | predicted | {' | '.join(laws)} |",
        "|---" * (2 + len(laws)) + "|",
    ]
    for asked in SETTINGS:
        made = plan(**asked, effect_spread=1, max_batches=asked["batches"])
        cells = [", ".join(f"{name} {value:,}" for name, value in asked.items())]
        cells.append(f"{made.row.regret:.0f}")
        for law in COORDINATES:
            mean, error = directly(made, law)
            say(f"{law}: {mean:.0f} ± {error:.0f}")
            cells.append(f"{mean / made.row.regret - 1:+.0%}")
        lines.append(f"| {' | '.join(cells)} |")
        say(lines[-1])
    return [*lines, "", *few_kinds()]


def few_kinds() -> list[str]:
    """Return a paragraph on units of few kinds, where the prediction for normal ones fails."""
    asked = SETTINGS[-1]
    rest = {"effect_spread": 1, "max_batches": asked["batches"]}
    grid = plan(**asked, **rest).grid
    kinds = Sample(np.array([*product([-1.0, 1.0], repeat=asked["features"])] * 50))
    told = plan(**{**asked, "features": kinds}, **rest)
    regret, error = told.request.judged(grid.sizes).total(grid.sizes)
    return paragraph(
        "With few yes/no features there are few kinds of units, and pure exploitation may never "
        "try the best action again for one of them (column *binary*, last row). Pass a "
        f"[sample](how-to/sample.md): the plan then predicts {regret:.0f} ± {error:.0f} for the "
        f"same batches, and finds others that lose {told.row.regret:.0f} ± {told.row.error:.0f}."
    )


def conducts() -> list[str]:
    """Return one line for each way to run an experiment: the prediction, and direct simulation."""
    asked: dict[str, Any] = {"units": 5_000, "actions": 3, "features": 3, "effect": 0.3}
    asked["effect_spread"] = 1
    lines = [
        *paragraph(
            "Predicted regret for 5,000 units, 3 actions, 3 features, effect 0.3 and 3 batches, "
            "and by how much regret simulated with the policy's own code deviates in "
            f"{CONDUCTED} trials; standard errors are 1% to 2%."
        ),
        "| experiment | predicted | simulated |",
        "|---|---|---|",
    ]
    for more in CONDUCTS:
        made = plan(**asked, **more, batches=3, max_batches=3)
        lost = [
            # With every unit of a batch, instead of a sample.
            trial.regret(GREEDY, made.grid.sizes, np.random.default_rng(seed), most=made.units)
            for seed, trial in enumerate(made.model.thinned(CONDUCTED, seed=1))
        ]
        mean, error = float(np.mean(lost)), float(np.std(lost, ddof=1) / np.sqrt(CONDUCTED))
        name = ", ".join(f"{key} {value}" for key, value in more.items()) or "nothing else"
        lines.append(f"| {name} | {made.row.regret:.0f} | {mean / made.row.regret - 1:+.0%} |")
        say(f"{lines[-1]} ± {error:.0f}")
    return lines


def timings() -> list[str]:
    """Return one line for each model: processor seconds for the full table, few units and many."""
    plan(units=1_000, actions=2, features=1, max_batches=2)  # compiles what is compiled
    lines = [
        "Processor time of the full table up to eight batches, with policies and fully online:",
        "",
        "| model | 50,000 units | a billion units |",
        "|---|---|---|",
    ]
    for kind in (
        {"actions": 10, "dim": 10},
        {"actions": 4, "dim": 50},
        {"actions": 3, "features": 12},
        {"actions": 5, "features": 30},
        {"actions": 200, "features": 5},
    ):
        cells = [", ".join(f"{name} {value}" for name, value in kind.items())]
        for units in (50_000, 10**9):
            start = time.process_time()
            plan(units=units, **kind)  # type: ignore[arg-type]
            cells.append(f"{time.process_time() - start:.1f} s")
        lines.append(f"| {' | '.join(cells)} |")
        say(lines[-1])
    return lines


#: By its name: the heading, and the function that writes the section.
SECTIONS: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "regret": ("Regret", agreement),
    "conduct": (
        "Randomised units, missing and late outcomes, limits, eligibility and capacities",
        conducts,
    ),
    "sizes": ("Sizes of batches", grid_search.table),
    "errors": ("Standard errors of lifts", detection.errors),
    "power": ("Detectable lifts against simulated power", detection.powers),
    "data": ("Real data", real_data.table),
    "seconds": ("Seconds", timings),
}


def written(page: str) -> dict[str, list[str]]:
    """Return the sections that a page has, by their headings."""
    found: dict[str, list[str]] = {}
    for part in page.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        found[heading] = body.strip("\n").splitlines()
    return found


def main(names: list[str]) -> None:
    """Write the named sections again, or all."""
    # First batches that leave directions open are part of what is measured.
    warnings.simplefilter("ignore", RankDeficiencyWarning)
    for name in names or SECTIONS:
        heading, make = SECTIONS[name]
        # Read the page only now: other sections may have been written meanwhile.
        made = make()
        sections = {**written(PAGE.read_text(encoding="utf-8")), heading: made}
        lines = ["# How good are plans?", "", "Written by `python -m benchmarks.planning`."]
        for title, _ in SECTIONS.values():
            lines += ["", f"## {title}", "", *sections.get(title, ["Not measured yet."])]
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        say(f"{heading}: written to {PAGE}")


if __name__ == "__main__":
    main(sys.argv[1:])

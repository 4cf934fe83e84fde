"""Compare what plans predict with direct simulation, and time them; write docs/plan-accuracy.md."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worlds import COORDINATES, world
from seqbatch.planning import Plan, plan
from seqbatch.policies import SBPE
from seqbatch.simulation import simulate

PAGE = Path("docs/plan-accuracy.md")
TRIALS = 600

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


def directly(made: Plan, law: str) -> tuple[float, float]:
    """Return the mean regret unit by unit, and its standard error."""
    environment = world(made.model, law)
    policy = SBPE(first="uniform", ties="random")
    regret = [
        simulate(policy, environment, made.grid, seed=seed, method="direct", learn_last=False)
        for seed in range(TRIALS)
    ]
    totals = np.array([run.regret[-1] for run in regret])
    return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(TRIALS))


def agreement() -> list[str]:
    """Return one line for each setting: the prediction, and each law's direct simulation."""
    lines = []
    for asked in SETTINGS:
        made = plan(**asked, max_batches=asked["batches"])
        cells = [", ".join(f"{name} {value:,}" for name, value in asked.items())]
        cells.append(f"{made.row.regret:.0f} ± {made.row.error:.0f}")
        for law in COORDINATES:
            mean, error = directly(made, law)
            cells.append(f"{mean:.0f} ± {error:.0f} ({mean / made.row.regret - 1:+.0%})")
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def timings() -> list[str]:
    """Return one line for each model: seconds for the full table, few units and many."""
    lines = []
    for kind in (
        {"actions": 10, "dim": 10},
        {"actions": 4, "dim": 50},
        {"actions": 3, "features": 12},
        {"actions": 5, "features": 30},
    ):
        cells = [", ".join(f"{name} {value}" for name, value in kind.items())]
        for units in (10_000, 10**9):
            start = time.perf_counter()
            plan(units=units, **kind)  # type: ignore[arg-type]
            cells.append(f"{time.perf_counter() - start:.1f} s")
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    plan(units=1_000, actions=2, features=1, max_batches=2)  # compiles what is compiled
    laws = list(COORDINATES)
    lines = [
        "# How good plans are",
        "",
        "Written by `python -m benchmarks.planning`. Regret as predicted, and as simulated unit by",
        f"unit in {TRIALS} trials with coordinates of several laws, of variance 1; in brackets",
        "the deviation from the prediction, which assumes normal ones.",
        "",
        f"| plan | predicted | {' | '.join(laws)} |",
        "|---" * (2 + len(laws)) + "|",
        *agreement(),
        "",
        "The full table up to eight batches, with policies, sensitivity and fully online:",
        "",
        "| model | ten thousand units | a billion units |",
        "|---|---|---|",
        *timings(),
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"Written to {PAGE}")


if __name__ == "__main__":
    main()

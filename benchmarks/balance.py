"""The value of balance in a first wave: the variance of a lift, by kind of draw.

``python -m benchmarks.balance`` draws the first wave of a trial many times over: 600 patients in
three arms, 20 centres of unequal size, two sexes. Outcomes are fixed beforehand and no arm has an
effect: every lift is due to the draw.
"""

import numpy as np

from seqbatch.allocation import rounded
from seqbatch.core.arrays import Floats, Integers

PATIENTS, ARMS, CENTRES, TRIALS, DRAWS = 600, 3, 20, 40, 500


def _patients(random: np.random.Generator) -> tuple[Integers, Floats]:
    """Return centre and sex of each patient, and the outcome: half of its variance lies in them."""
    centre = random.choice(CENTRES, PATIENTS, p=random.dirichlet(np.full(CENTRES, 3.0)))
    sex = random.integers(0, 2, PATIENTS)
    effect = random.normal(scale=np.sqrt(0.35), size=CENTRES)
    mean = effect[centre] + np.sqrt(0.6) * (sex - 0.5)
    noise = random.normal(scale=np.sqrt(0.5), size=PATIENTS)
    return np.column_stack([centre, sex]), mean + noise


def _lift(actions: Integers, outcome: Floats) -> float:
    return float(outcome[actions == 1].mean() - outcome[actions == 0].mean())


def _variances(random: np.random.Generator, key: int) -> list[float]:
    """Return the variance of the lift over draws of one trial, for each kind of draw."""
    strata, outcome = _patients(random)
    table = np.full((PATIENTS, ARMS), 1 / ARMS)
    kinds: list[Integers | None] = [None, strata[:, :1], strata]
    lifts: list[list[float]] = [[] for _ in range(4)]
    for draw in range(DRAWS):
        lifts[0].append(_lift(random.integers(0, ARMS, PATIENTS), outcome))
        for place, levels in enumerate(kinds, start=1):
            lots = random.random(PATIENTS)
            drawn = rounded(table, key=key * DRAWS + draw, order=lots, strata=levels)
            lifts[place].append(_lift(drawn.actions, outcome))
    return [float(np.var(values, ddof=1)) for values in lifts]


def main() -> None:
    """Measure and print."""
    random = np.random.default_rng(14)
    found = np.array([_variances(random, key) for key in range(TRIALS)])
    relative = found / found[:, :1]
    error = relative.std(axis=0, ddof=1) / np.sqrt(TRIALS)
    names = ("independent", "balanced", "balanced in centres", "balanced in centres and sexes")
    print(f"variance of the lift, relative to independent draws ({TRIALS} trials, {DRAWS} draws)")
    for name, mean, spread in zip(names, relative.mean(axis=0), error, strict=True):
        print(f"{name:30} {mean:5.2f} (standard error {spread:.2f})")


if __name__ == "__main__":
    main()

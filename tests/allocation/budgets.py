"""Random small waves under a budget, and the share of the best possible value that they reach.

``python -m tests.allocation.budgets 2000`` compares ``limited`` with the best assignment of whole
numbers, for policies that are free to choose. ``python -m tests.allocation.budgets 300 floors``
gives every action a floor, and compares with the best table that may be drawn from; ``200 files``
takes problems as a file of a campaign poses them.
"""

import sys
import time

import numpy as np

from seqbatch.allocation import Limits, limited
from seqbatch.errors import InvalidArgumentError
from tests.oracles.transport import best_assignment, best_table

SHARES = (0.02, 0.1, 0.3)


def problem(number, *, floors=False):
    """Return scores, eligibility, a floor and limits, of a kind that the number says."""
    random = np.random.default_rng([277, number])
    units, actions = int(random.integers(5, 61)), int(random.integers(2, 6))
    # Costs differ by up to a hundred times; the first action is free in two problems of three.
    costs = np.round(100.0 ** random.random(actions), number % 2)
    costs[0] = 0.0 if number % 3 else costs[0]
    gains = random.gamma(1.0, size=(units, actions))
    kind = number % 5
    if kind == 1:
        gains = random.integers(0, 4, gains.shape).astype(float)
    elif kind == 2:
        gains[:] = gains[0]
    elif kind == 3:
        gains = gains[random.integers(0, 3, units)]
    # Dear actions gain more in most problems; otherwise they would hardly be given.
    scores = gains * costs ** random.choice([0.0, 0.5, 1.0])
    scores[:, 0] = 0.0 if number % 2 else scores[:, 0]
    eligible = np.ones(scores.shape, dtype=bool)
    if number % 4 == 1:
        eligible = random.random(scores.shape) < 0.7
        eligible[:, 0] = True
    most = np.full(actions, np.inf)
    if number % 7 in (1, 2, 3):
        few = random.integers(1, max(units // 2, 2), actions)
        most[1:] = np.where(random.random(actions - 1) < 0.6, few[1:], np.inf)
    least = np.zeros(actions)
    if number % 7 == 3:
        least[-1] = min(1.0, eligible[:, -1].sum())
    floor = np.zeros(scores.shape)
    if floors:
        floor = SHARES[number % 3] * eligible / eligible.sum(axis=1, keepdims=True)
    own = floor.sum(axis=0) @ costs
    rest = 1 - floor.sum(axis=1)
    cheap = np.where(eligible, costs, np.inf).min(axis=1) @ rest + least @ costs
    full = costs[np.where(eligible, scores, -np.inf).argmax(axis=1)] @ rest
    tight = random.random() ** 2
    budget = own + cheap + tight * max(full - cheap, 0.0)
    # Whole budgets are met exactly by some counts; others by none.
    budget = float(np.ceil(budget) if number % 2 else budget)
    limits = {"least": least, "most": most, "costs": costs, "budget": budget}
    return scores, eligible, floor, limits


def file_problem(number):
    """Return a problem as a file of a campaign poses it: shares of capacities, quotas and budget.

    Every unit has a floor. Budgets reach from what hardly any table keeps to what all of them do.
    """
    random = np.random.default_rng([911, number])
    units, actions = int(random.integers(3, 31)), int(random.integers(2, 5))
    costs = np.round(random.choice([3.0, 30.0]) ** random.random(actions), number % 3)
    costs[0] = 0.0 if random.random() < 0.6 else costs[0]
    scores = random.gamma(1.0, size=(units, actions)) * (0.3 + costs) ** random.choice([0, 0.5, 1])
    scores = np.rint(scores) if random.random() < 0.2 else scores
    eligible = np.ones(scores.shape, dtype=bool)
    if random.random() < 0.4:
        eligible = random.random(scores.shape) < 0.75
        eligible[np.arange(units), random.integers(0, actions, units)] = True
    share = random.choice([0.03, 0.1, 0.25, 0.5])
    floor = share * eligible / eligible.sum(axis=1, keepdims=True)
    own = floor.sum(axis=0)
    # Limits are whole, as those of a wave, or a file's share of them.
    part = 1.0 if random.random() < 0.5 else random.uniform(0.2, 0.9)
    most = np.where(random.random(actions) < 0.4, own + random.uniform(0.2, units, actions), np.inf)
    most = np.where(np.isfinite(most), np.ceil(most) if part == 1 else most, np.inf)
    most[0] = np.inf
    least = np.where(random.random(actions) < 0.3, random.integers(0, 3, actions) * part, 0.0)
    least = np.minimum(least, np.minimum(most, eligible.sum(axis=0) * (1 - share)))
    least = least if part < 1 else np.floor(least)
    rest = 1 - floor.sum(axis=1)
    cheap = own @ costs + np.where(eligible, costs, np.inf).min(axis=1) @ rest + least @ costs
    dear = own @ costs + costs[np.where(eligible, scores, -np.inf).argmax(axis=1)] @ rest
    budget = cheap + random.random() ** 3 * max(dear - cheap, 0.0) + random.random() * costs.max()
    limits = {"least": least, "most": most, "costs": costs, "budget": float(budget)}
    if random.random() < 0.5:
        limits["on_average"] = float(random.uniform(max(cheap, 0.3 * budget), budget))
    return scores, eligible, floor, limits


def solve(scores, eligible, floor, limits):
    """Return the table within limits, of a policy that chooses the highest scores."""
    chosen = np.eye(scores.shape[1])[np.where(eligible, scores, -np.inf).argmax(axis=1)]
    named = {"least": "at_least", "most": "at_most"}
    asked = Limits(**{named.get(name, name): value for name, value in limits.items()})
    given = floor if floor.any() else None
    return limited(scores, chosen, asked, eligible=eligible, floor=given)


def posed(number, kind):
    """Return a problem of a kind (free, floors, files), and its best value; None if it has none."""
    if kind == "files":
        one = file_problem(number)
        return one, best_table(*one[:3], **one[3])
    scores, eligible, floor, limits = one = problem(number, floors=kind == "floors")
    if kind == "floors":
        return one, best_table(scores, eligible, floor, **limits)
    return one, best_assignment(scores, eligible, **limits)


def ratio(number, kind="free"):
    """Return the value that is reached relative to the best; None if no table is possible."""
    one, best = posed(number, kind)
    return None if best is None or best <= 0 else solve(*one).value / best


def main(count, kind):
    """Print how the ratios of many problems are distributed."""
    start, found, refused = time.process_time(), [], 0
    for number in range(count):
        try:
            one = ratio(number, kind)
        except InvalidArgumentError:
            refused += 1
            continue
        if one is not None:
            found.append(one)
    ratios = np.array(found)
    print(f"{count:,} problems: {len(ratios):,} compared, {refused} refused although possible")
    print(f"lowest {ratios.min():.4f}, 1% {np.quantile(ratios, 0.01):.4f}, "
          f"5% {np.quantile(ratios, 0.05):.4f}, highest {ratios.max():.6f}")  # fmt: skip
    for share in (0.95, 0.98, 0.999):
        print(f"below {share}: {(ratios < share).sum():,} ({(ratios < share).mean():.2%})")
    print(f"{time.process_time() - start:.0f} processor seconds")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:] or ["free"])

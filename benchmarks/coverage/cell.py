"""One cell of the coverage study in detail: other seeds, more campaigns, lift by lift.

`python -m benchmarks.coverage.cell --world misspecified --waves 2 --campaigns 6000` says how often
the pooled lifts' intervals cover, the mean error of the estimates, and how their spread compares
with their standard errors. It shows whether a cell is at the edge of its bound by chance.
"""

import argparse

import numpy as np

from benchmarks.coverage.worlds import ACTIONS, WORLDS, Cell, simulate_campaign
from seqbatch.core.arrays import Floats
from seqbatch.inference import Lift, pool, summarise


def campaign(cell: Cell, seed: list[int]) -> Floats:
    """Return the deviation of each lift, its standard error, and whether it is covered."""
    simulated = simulate_campaign(cell, np.random.default_rng(seed))
    lifts = [Lift(action) for action in range(1, ACTIONS)]
    summaries = summarise(simulated.waves, contrasts=lifts)
    found = [pool(summaries, lift, cell.plan.shares) for lift in lifts]
    truths = WORLDS[cell.world].lifts
    return np.array(
        [
            (one.estimate - truth, one.error, one.low <= truth <= one.high)
            for one, truth in zip(found, truths, strict=True)
        ]
    )


def main() -> None:
    """Simulate the cell, and print a line for each lift and one for both together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", default="misspecified", choices=WORLDS)
    parser.add_argument("--waves", type=int, default=2)
    parser.add_argument("--units", type=int, default=3_000)
    parser.add_argument("--campaigns", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=77)
    told = parser.parse_args()
    cell = Cell(world=told.world, waves=told.waves, units=told.units)
    made = np.array([campaign(cell, [told.seed, place]) for place in range(told.campaigns)])
    print(f"{cell.describe()}: {told.campaigns:,} campaigns")
    for place in range(made.shape[1]):
        off, error, covered = made[:, place].T
        size = float(np.sqrt((error**2).mean()))
        print(
            f"  lift {place + 1}: covers {covered.mean():.4f}; bias {off.mean() / size:+.3f} and "
            f"spread {off.std() / size:.3f} standard errors"
        )
    both = made[:, :, 2].mean(axis=1)
    print(f"  both: {both.mean():.4f} ± {both.std() / np.sqrt(len(both)):.4f}")


if __name__ == "__main__":
    main()

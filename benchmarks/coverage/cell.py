"""One cell of the coverage study in detail: other seeds, more campaigns.

`python -m benchmarks.coverage.cell "94%" --campaigns 6000` takes the first cell whose description
holds these words, and says for each interval how often it is printed, covers and misses on each
side, and how wide it is. It shows whether a cell is at the edge of its bound by chance.
"""

import argparse
from collections import defaultdict

import numpy as np

from benchmarks.coverage.cells import Cell, cells
from benchmarks.coverage.measures import Printed, measure_campaign
from benchmarks.coverage.study import estimate


def measured(cell: Cell, campaigns: int, seed: int) -> tuple[list[str], list[str]]:
    """Simulate a cell; return a line for each interval, and one for each test and verdict."""
    printed: dict[str, list[Printed]] = defaultdict(list)
    happened: dict[str, list[bool]] = defaultdict(list)
    for place in range(campaigns):
        made = measure_campaign(cell, np.random.default_rng([seed, place]), jointly=False)
        for one in made[0]:
            printed[one.name].append(one)
        for flag in made[1]:
            happened[flag.name].append(flag.happened)
    shares = [f"  {name}: {np.mean(many):.3f}" for name, many in happened.items()]
    return [_line(name, many) for name, many in printed.items()], shares


def _line(name: str, many: list[Printed]) -> str:
    known = [one for one in many if one.known]
    if not known:
        return f"  {name}: never printed"
    above, below = (sum(getattr(one, side) for one in known) for side in ("above", "below"))
    covers = estimate(len(known) - above - below, len(known))
    width = np.median([one.high - one.low for one in known])
    return (
        f"  {name}: printed {len(known) / len(many):.2f}, covers {covers.shown(3)}, truth above "
        f"{above / len(known):.3f}, below {below / len(known):.3f}, width {width:.4g}"
    )


def main() -> None:
    """Find the cell, simulate it, and print its lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", help="part of the cell's description")
    parser.add_argument("--campaigns", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=77)
    told = parser.parse_args()
    found = [cell for cell in cells() if told.words in cell.describe()]
    if not found:
        parser.error(f"no cell's description holds {told.words!r}")
    print(f"{found[0].describe()}: {told.campaigns:,} campaigns")
    for lines in measured(found[0], told.campaigns, told.seed):
        print(*lines, sep="\n")


if __name__ == "__main__":
    main()

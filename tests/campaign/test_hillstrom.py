"""Findings of campaigns on Hillstrom's log, where the truth is known; 200 seeds: benchmarks."""

import numpy as np
import pytest
from benchmarks.hillstrom import gaps, log

from seqbatch.datasets import MissingDatasetError

SEEDS = 8


@pytest.mark.slow
def test_intervals_lie_around_the_truth_of_the_whole_log():
    try:
        everyone = log()
    except MissingDatasetError:
        pytest.skip("hillstrom.csv is not at hand")
    found = list(gaps(everyone, SEEDS))
    for kind, action in {(kind, action) for kind, action, _, _ in found if "naive" not in kind}:
        mine = [(gap, covered) for k, a, gap, covered in found if (k, a) == (kind, action)]
        z = np.array([gap for gap, _ in mine])
        # Chances below 1 in 10,000 where standardised errors are what they should be.
        assert abs(z.mean()) < 4 / np.sqrt(SEEDS), (kind, action)
        assert np.sqrt((z**2).mean()) < 2, (kind, action)
        assert sum(covered for _, covered in mine) >= SEEDS - 4, (kind, action)

"""The two tests at a wave's end: right when all is well, and loud when it is not."""

import numpy as np

from seqbatch.campaign.checks import Allocation, missingness


def p_values(count, forge):
    random = np.random.default_rng(3)
    found = []
    for _ in range(count):
        # Every unit has probabilities of its own, some of them 0 or 1.
        probabilities = random.dirichlet([0.5, 0.5, 0.5], 2_000)
        probabilities[:500] = [0.0, 1.0, 0.0]
        actions = (probabilities.cumsum(axis=1) < random.random((2_000, 1))).sum(axis=1)
        actions = np.where(random.random(2_000) < forge, 0, np.minimum(actions, 2))
        allocation = Allocation(3)
        for start in range(0, 2_000, 300):
            part = slice(start, start + 300)
            allocation.add(actions[part], probabilities[part])
        found.append(allocation.test().p)
    return np.array(found)


def test_allocation_is_uniform_when_all_is_well():
    found = p_values(400, forge=0.0)
    shares = np.histogram(found, bins=4, range=(0, 1))[0] / 400
    assert np.abs(shares - 0.25).max() < 0.08


def test_allocation_finds_units_that_were_redirected():
    assert p_values(20, forge=0.1).max() < 1e-3


def test_allocation_without_randomness_has_nothing_to_test():
    allocation = Allocation(2)
    allocation.add(np.array([0, 1]), np.eye(2))
    assert allocation.test().p is None


def test_missingness():
    assert missingness(np.array([100, 0]), np.array([90, 0])).p is None
    assert missingness(np.array([100, 100]), np.array([100, 100])).p is None
    test = missingness(np.array([1000, 1000, 10]), np.array([500, 900, 9]))
    assert test.freedom == 2
    assert test.suspicious

"""The two tests at a wave's end: right when all is well, and loud when it is not."""

import numpy as np
import pytest

from seqbatch.campaign.decide.action_counts import Allocation, ChiSquare, missingness


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
    assert allocation.test() == ChiSquare(0.0, 0, None)


def drawn(random, probabilities):
    passed = probabilities.cumsum(axis=1) < random.random((len(probabilities), 1))
    return np.minimum(passed.sum(axis=1), probabilities.shape[1] - 1)


def told_apart(actions, probabilities, gone):
    count = probabilities.shape[1]
    seen, missing = Allocation(count), Allocation(count)
    seen.add(actions[~gone], probabilities[~gone])
    missing.add(actions[gone], probabilities[gone])
    return missingness(seen, missing)


def greedy_wave(random, *, units, floor, effect=0.0):
    """Test a wave in which a unit's best action and its missing outcome depend on one number."""
    x = random.normal(size=units)
    probabilities = np.full((units, 4), floor)
    probabilities[np.arange(units), np.digitize(x, [-1, 0, 1])] = 1 - 3 * floor
    actions = drawn(random, probabilities)
    gone = random.random(units) < 0.05 + 0.3 * (x > 1) + effect * (actions == 0)
    return told_apart(actions, probabilities, gone), (actions, probabilities)


@pytest.mark.parametrize(("units", "floor", "waves"), [(1_000, 0.05, 600), (5_000, 0.005, 300)])
def test_levels_hold_where_units_differ(units, floor, waves):
    random = np.random.default_rng(8)
    found, shares = [], []
    for _ in range(waves):
        test, (actions, probabilities) = greedy_wave(random, units=units, floor=floor)
        allocation = Allocation(4)
        allocation.add(actions, probabilities)
        found.append(test)
        shares.append(allocation.test())
    for tests in (found, shares):
        made = np.array([test.p for test in tests if test.p is not None])
        assert all(test.few for test in tests if test.p is None)
        assert len(made) > 0.9 * waves
        # A level of 0.01, or of 0.1, and three standard errors.
        for level in (0.01, 0.1):
            assert (made < level).mean() < level + 3 * np.sqrt(level * (1 - level) / len(made))


def test_missingness_under_one_action_is_seen():
    random = np.random.default_rng(9)
    tests = [greedy_wave(random, units=4_000, floor=0.05, effect=0.3)[0] for _ in range(20)]
    assert all(test.suspicious for test in tests)


@pytest.mark.parametrize(("seen", "missing", "statistic"), [
    # Pearson's statistic of the two by two table, 1000 (450 150 - 350 50)^2 / (800 200 500 500).
    ((450, 350), (50, 150), 62.5),
    ((260, 240), (240, 260), 1.6),
])  # fmt: skip
def test_missingness_by_hand(seen, missing, statistic):
    actions = np.repeat([0, 1, 0, 1], [*seen, *missing])
    gone = np.arange(1_000) >= sum(seen)
    test = told_apart(actions, np.full((1_000, 2), 0.5), gone)
    assert (test.statistic, test.freedom) == (pytest.approx(statistic), 1)


def test_rare_actions_are_counted_as_one():
    random = np.random.default_rng(10)
    probabilities = np.tile([0.0, 0.001, 0.003, 0.006, 0.495, 0.495], (1_000, 1))
    allocation = Allocation(6)
    allocation.add(drawn(random, probabilities), probabilities)
    # 1 + 3 + 6 expected of the rarest three together, beside the other two.
    assert allocation.test().freedom == 2


def test_too_few_is_said():
    random = np.random.default_rng(11)
    even = np.full((100, 2), 0.5)
    actions = drawn(random, even)
    assert told_apart(actions, even, np.arange(100) < 3) == ChiSquare(0.0, 0, None, few=True)
    assert not told_apart(actions, even, np.arange(100) < 40).few
    allocation = Allocation(2)
    allocation.add(actions[:10], even[:10])
    assert allocation.test().few


def test_missingness_without_anything_missing_has_nothing_to_test():
    even, actions = np.full((100, 2), 0.5), np.arange(100) % 2
    assert told_apart(actions, even, np.zeros(100, dtype=bool)) == ChiSquare(0.0, 0, None)
    assert told_apart(actions, even, np.ones(100, dtype=bool)) == ChiSquare(0.0, 0, None)
    assert told_apart(actions, np.eye(2)[actions], actions == 0) == ChiSquare(0.0, 0, None)

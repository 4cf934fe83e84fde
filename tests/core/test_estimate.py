"""Estimates from statistics compared with solutions from the raw rows."""

import numpy as np
import pytest

from seqbatch.core import Statistics, least_squares, ridge, ridge_means

random = np.random.default_rng(0)


def observed(rows, rewards, cells=None, number=1):
    cells = np.zeros(len(rows), dtype=np.int64) if cells is None else cells
    return Statistics.zero(number, rows.shape[1]).add(rows, rewards, cells)


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 7.0])
def test_ridge(penalty):
    rows, rewards = random.standard_normal((50, 6)), random.standard_normal(50)
    estimate = ridge(observed(rows, rewards), penalty)
    A = rows.T @ rows + penalty * np.eye(6)
    np.testing.assert_allclose(estimate.theta[0], np.linalg.solve(A, rows.T @ rewards))
    np.testing.assert_allclose(estimate.root[0].T @ estimate.root[0], np.linalg.inv(A))


@pytest.mark.parametrize(("cells", "dim"), [(1, 1), (1, 30), (2, 4), (5, 9), (40, 17)])
@pytest.mark.parametrize("penalty", [1e-300, 0.3])
def test_ridge_without_widths_has_the_same_means(cells, dim, penalty):
    # So few units that some cells have fewer than columns.
    units = 12 * cells
    rows, rewards = random.standard_normal((units, dim)), random.standard_normal(units)
    statistics = observed(rows, rewards, np.arange(units) % cells, number=cells)
    means, whole = ridge_means(statistics, penalty), ridge(statistics, penalty)
    # To the bit: no library of the machine rounds otherwise, and a replay elsewhere agrees.
    assert means.theta.tobytes() == whole.theta.tobytes()
    assert np.array_equal(means.rank, whole.rank)
    assert means.root.size == 0


def test_ridge_without_widths_solves_what_rounding_makes_singular():
    """A column that is there twice, and a penalty that is lost beside it, in one cell of two."""
    rows, rewards = random.standard_normal((200, 2)), random.standard_normal(200)
    cells = np.arange(200) % 2
    rows[cells == 0] = 1000.0
    statistics = observed(rows, rewards, cells, number=2)
    means, alone = ridge_means(statistics, 1e-12), observed(rows[1::2], rewards[1::2])
    twin = rewards[::2].mean() / 2000.0
    np.testing.assert_allclose(means.theta[0].sum(), 2 * twin, rtol=1e-6)
    assert np.array_equal(means.theta[1], ridge_means(alone, 1e-12).theta[0])


def test_ridge_widths_stay_accurate_when_badly_conditioned():
    """The factor keeps half the digits that an explicit inverse would lose."""
    scales = np.logspace(0, -7, 8)
    rows = random.standard_normal((200, 8)) * scales
    estimate = ridge(observed(rows, np.zeros(200)), 1e-13)
    x = random.standard_normal(8) * scales
    # In coordinates where the gram is well conditioned the answer is easy to compute.
    flat = rows / scales
    A = flat.T @ flat + 1e-13 * np.diag(scales**-2)
    expected = np.sqrt((x / scales) @ np.linalg.solve(A, x / scales))
    assert np.linalg.norm(estimate.root[0] @ x) == pytest.approx(expected, rel=1e-7)


def test_ridge_re_estimates_stale_cells_only():
    rows, rewards = random.standard_normal((20, 3)), random.standard_normal(20)
    cells = random.integers(0, 2, 20)
    before = observed(rows, rewards, cells, 2)
    previous = ridge(before, 1.0)
    after = before.add(rows, rewards, np.ones(20, dtype=np.int64))
    partial = ridge(after, 1.0, stale=np.array([False, True]), previous=previous)
    assert np.array_equal(partial.theta[0], previous.theta[0])
    assert np.array_equal(partial.theta[1], ridge(after, 1.0).theta[1])
    assert np.array_equal(partial.root[1], ridge(after, 1.0).root[1])


def test_least_squares():
    rows, rewards = random.standard_normal((40, 5)), random.standard_normal(40)
    estimate = least_squares(observed(rows, rewards))
    expected = np.linalg.lstsq(rows, rewards, rcond=None)[0]
    np.testing.assert_allclose(estimate.theta[0], expected, rtol=1e-10)
    assert estimate.rank[0] == 5
    scaled = rows / np.linalg.norm(rows, axis=0)
    assert estimate.condition[0] == pytest.approx(np.linalg.cond(scaled) ** 2)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_least_squares_minimum_norm_when_deficient(rank):
    rows = random.standard_normal((40, rank)) @ random.standard_normal((rank, 5))
    rewards = random.standard_normal(40)
    estimate = least_squares(observed(rows, rewards))
    assert estimate.rank[0] == rank
    expected = np.linalg.lstsq(rows, rewards, rcond=None)[0]
    np.testing.assert_allclose(estimate.theta[0], expected, rtol=1e-8, atol=1e-12)
    assert np.isnan(estimate.condition[0]) == (rank == 0)


def test_least_squares_sees_deficiency_after_many_units():
    """Rounding that piles up over units is not mistaken for a direction."""
    x = random.standard_normal((50_000, 2))
    rows = np.column_stack([x, x @ [0.3, -0.7]])
    assert least_squares(observed(rows, x[:, 0])).rank[0] == 2


def test_least_squares_does_not_mind_units_of_measure():
    scales = np.array([1e-4, 1.0, 1e5])
    rows = random.standard_normal((500, 3)) * scales
    estimate = least_squares(observed(rows, rows @ (1 / scales)))
    assert estimate.rank[0] == 3
    np.testing.assert_allclose(estimate.theta[0], 1 / scales, rtol=1e-6)

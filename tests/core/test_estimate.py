"""Estimates from statistics alone against solutions from the raw rows."""

import numpy as np
import pytest
from sklearn import linear_model

from seqbatch.core import Statistics, lasso, least_squares, noise_variance, ridge
from tests.oracles.greedy import lasso_by_coordinates

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
    assert estimate.condition[0] == pytest.approx(np.linalg.cond(rows) ** 2)


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


@pytest.mark.parametrize("penalty", [0.0, 0.01, 0.2, 100.0])
def test_lasso(penalty):
    rows = random.standard_normal((60, 7))
    rewards = rows @ [1, 0, 0, -2, 0, 0.1, 0] + 0.1 * random.standard_normal(60)
    estimate = lasso(observed(rows, rewards), penalty, units=60)
    expected = lasso_by_coordinates(rows, rewards, penalty)
    np.testing.assert_allclose(estimate.theta[0], expected, atol=1e-8)
    assert estimate.rank[0] == np.count_nonzero(np.abs(expected) > 1e-12)


def test_lasso_of_blocks_is_that_of_the_long_parameter():
    rows, cells = random.standard_normal((80, 3)), random.integers(0, 2, 80)
    rewards = random.standard_normal(80)
    long = np.zeros((80, 6))
    for t in range(80):
        long[t, 3 * cells[t] : 3 * cells[t] + 3] = rows[t]
    blocks = lasso(observed(rows, rewards, cells, 2), 0.05, units=80)
    np.testing.assert_allclose(
        blocks.theta.ravel(), lasso_by_coordinates(long, rewards, 0.05), atol=1e-9
    )


def test_least_squares_does_not_mind_units_of_measure():
    scales = np.array([1e-4, 1.0, 1e5])
    rows = random.standard_normal((500, 3)) * scales
    estimate = least_squares(observed(rows, rows @ (1 / scales)))
    assert estimate.rank[0] == 3
    np.testing.assert_allclose(estimate.theta[0], 1 / scales, rtol=1e-6)


def test_lasso_goes_on_where_the_path_stops_early(monkeypatch):
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((60, 6))
    rows[:, 5] = rows[:, 0] - rows[:, 1] + 1e-5 * rng.standard_normal(60)
    rewards = rows @ np.array([1.0, 0.0, 0.5, 0.0, -0.4, 0.7]) + rng.standard_normal(60)
    whole = linear_model.lars_path_gram

    def stopping(**arguments):
        return whole(**{**arguments, "alpha_min": 3 * arguments["alpha_min"]})

    monkeypatch.setattr(linear_model, "lars_path_gram", stopping)
    theta = lasso(observed(rows, rewards), 0.05, units=60).theta[0]
    gradient = rows.T @ (rewards - rows @ theta) / 60
    assert np.abs(gradient).max() <= 0.05 * (1 + 1e-8)
    active = theta != 0
    np.testing.assert_allclose(gradient[active], 0.05 * np.sign(theta[active]), rtol=1e-7)


def test_lasso_beyond_five_hundred_steps():
    rows = random.standard_normal((1_500, 520))
    rewards = rows @ random.standard_normal(520)
    statistics = observed(rows, rewards)
    theta = lasso(statistics, 1e-4, units=1_500).theta[0]
    slope = (statistics.moment[0] - statistics.gram[0] @ theta) / 1_500
    assert np.count_nonzero(theta) > 500
    assert np.abs(slope).max() <= 1e-4 * (1 + 1e-6)
    np.testing.assert_allclose(slope[theta != 0], 1e-4 * np.sign(theta[theta != 0]), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_lasso_at_any_scale(scale):
    rows, rewards = random.standard_normal((60, 4)), random.standard_normal(60)
    plain = lasso(observed(rows, rewards), 0.05, units=60).theta
    scaled = lasso(observed(scale * rows, rewards), 0.05 * scale, units=60).theta
    np.testing.assert_allclose(scaled * scale, plain, rtol=1e-9)


def test_noise_variance():
    rows = random.standard_normal((5_000, 4))
    rewards = rows @ [1, 2, 3, 4] + 0.3 * random.standard_normal(5_000)
    statistics = observed(rows, rewards)
    estimate = least_squares(statistics)
    residual = rewards - rows @ estimate.theta[0]
    expected = residual @ residual / (5_000 - 4)
    assert noise_variance(statistics, estimate) == pytest.approx(expected)
    assert np.isnan(noise_variance(observed(rows[:3], rewards[:3]), estimate))

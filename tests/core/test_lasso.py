"""The lasso from statistics: the literal oracle, and the conditions of optimality."""

import numpy as np
import pytest
from sklearn.linear_model import lars_path_gram

from seqbatch.core import Statistics, kernels, lasso, regression
from seqbatch.core.lasso_path import end_of_path
from tests.oracles.greedy import lasso_by_coordinates

random = np.random.default_rng(0)


def observed(rows, rewards, cells=None, number=1):
    cells = np.zeros(len(rows), dtype=np.int64) if cells is None else cells
    return Statistics.zero(number, rows.shape[1]).add(rows, rewards, cells)


def check_optimal(statistics, penalty, units, *, rtol=1e-6):
    """Check the conditions of optimality, which are enough: the problem is convex."""
    theta = lasso(statistics, penalty, units=units).theta[0]
    gram, moment = statistics.gram[0] / units, statistics.moment[0] / units
    gradient = moment - gram @ theta
    slack = rtol * (penalty + np.abs(moment))
    active = theta != 0
    assert (np.abs(gradient) <= penalty + slack).all()
    assert (np.abs(gradient - penalty * np.sign(theta)) <= slack)[active].all()
    return theta


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


def designed(kind, rng, dim):
    x = rng.standard_normal((2 * dim + 50, dim))
    depends = x[:, 0] - x[:, 1]
    return {
        "plain": x,
        "correlated": x + 4 * rng.standard_normal((len(x), 1)),
        "nearly dependent": np.column_stack([x[:, :-1], depends + 1e-5 * x[:, -1]]),
        "dependent": np.column_stack([x[:, :-1], depends]),
        "the same twice": np.column_stack([x[:, :-1], x[:, 0]]),
        "far from the origin": np.abs(x) + 5,
        "scales": x * np.logspace(0, -6, dim),
        "few rows": x[: dim // 2],
    }[kind]


DESIGNS = (
    "plain", "correlated", "nearly dependent", "dependent", "the same twice",
    "far from the origin", "scales", "few rows",
)  # fmt: skip


@pytest.mark.parametrize("penalty", [0.3, 1e-2, 1e-4, 0.0])
@pytest.mark.parametrize("dim", [6, 30])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_conditions_hold_on_hard_designs(design, dim, penalty):
    rng = np.random.default_rng([dim, len(design)])
    rows = designed(design, rng, dim)
    rewards = rows @ (rng.standard_normal(dim) * (rng.random(dim) < 0.5))
    rewards = rewards + 0.5 * rng.standard_normal(len(rows))
    check_optimal(observed(rows, rewards), penalty, len(rows))


def slow_design():
    """Return few rows of many regressors: thousands of sweeps at a small penalty."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((20, 40))
    return observed(rows, rows @ rng.standard_normal(40) + rng.standard_normal(20))


def test_the_path_takes_over_where_coordinates_are_slow(monkeypatch):
    calls = []

    def counting(*arguments):
        calls.append(1)
        return end_of_path(*arguments)

    monkeypatch.setattr(regression, "end_of_path", counting)
    check_optimal(slow_design(), 1e-5, 20)
    assert calls


def test_coordinates_go_on_where_the_path_stops_early(monkeypatch):
    sweeps, plain = [], kernels.descend

    def stopping(gram, moment, penalty):
        return end_of_path(gram, moment, 3 * penalty)

    def counting(gram, moment, penalty, number, theta):
        sweeps.append(number)
        plain(gram, moment, penalty, number, theta)

    monkeypatch.setattr(regression, "end_of_path", stopping)
    monkeypatch.setattr(kernels, "descend", counting)
    check_optimal(slow_design(), 1e-3, 20)
    assert max(sweeps) > 1_000


def test_easy_problems_take_no_path(monkeypatch):
    monkeypatch.setattr(regression, "end_of_path", None)
    rows = random.standard_normal((200, 10))
    rewards = rows @ random.standard_normal(10) + random.standard_normal(200)
    theta = check_optimal(observed(rows, rewards), 0.05, 200, rtol=1e-12)
    np.testing.assert_allclose(theta, lasso_by_coordinates(rows, rewards, 0.05), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("design", DESIGNS)
def test_the_path_ends_at_the_minimum(design):
    """Beside scikit-learn's path, and the conditions of optimality where theirs end early."""
    rng = np.random.default_rng(len(design))
    for dim in (1, 2, 9, 24):
        rows = designed(design, rng, dim) if dim > 1 else rng.standard_normal((9, 1))
        rewards = rows @ rng.standard_normal(dim) + rng.standard_normal(len(rows))
        gram, moment = rows.T @ rows / len(rows), rows.T @ rewards / len(rows)
        for penalty in (0.3, 0.01, 1e-3):

            def loss(theta):
                return theta @ gram @ theta / 2 - theta @ moment + penalty * np.abs(theta).sum()  # noqa: B023

            _, _, path = lars_path_gram(
                Xy=moment, Gram=gram, n_samples=1, alpha_min=penalty, max_iter=100 * dim,
                method="lasso",
            )  # fmt: skip
            assert loss(end_of_path(gram, moment, penalty)) <= loss(path[:, -1]) + 1e-9

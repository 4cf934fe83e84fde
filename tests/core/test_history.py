"""Regression that starts from an earlier experiment, against one dense normal law of both."""

import numpy as np
import pytest

from seqbatch.core import Statistics, least_squares
from seqbatch.core.history import (
    WeighedFit,
    averaged,
    drifted_fit,
    evidence_alone,
    joint_noise,
    levelled,
    likeliest_ridge,
    weights_of,
)
from seqbatch.core.joint_regression import OPEN, JointSums, joint_fit
from tests.oracles import history as oracle
from tests.oracles import pooling

K, P = 3, 4
DEVIATIONS = np.array([0.4, 0.2, 0.9, 0.05])


def experiment(seed, batches, *, units=70, shock=0.0):
    """Return vectors, actions, outcomes, the batch of each unit, and the statistics by batch."""
    random = np.random.default_rng(seed)
    x = np.column_stack([np.ones(units), random.standard_normal((units, P - 1))])
    actions = random.integers(0, K, units)
    theta = random.standard_normal(P) + 0.4 * random.standard_normal((K, P))
    batch = np.arange(units) * batches // units
    y = np.sum(x * theta[actions], axis=1) + random.standard_normal(units) + shock * batch
    parts = [
        Statistics.zero(K, P).add(x[batch == b], y[batch == b], actions[batch == b])
        for b in range(batches)
    ]
    return x, actions, y, batch, parts


def dummies(batch, first):
    return np.column_stack([batch == b for b in range(first, batch.max() + 1)] or [batch[:, None]])[
        :, : batch.max() + 1 - first
    ].astype(float)


def both(leveled, seed=1):
    """Return an earlier regression, and both experiments as rows and as sums."""
    *old, batch, before = experiment(seed, 2, shock=1.5 * leveled)
    levels = {"constant": 0, "levels": (1,)} if leveled else {}
    earlier = JointSums.of(before, **levels)
    *new, wave, parts = experiment(seed + 50, 2, units=50, shock=-2.0 * leveled)
    sums = JointSums.of(parts, **({"constant": 0, "levels": (0, 1)} if leveled else {}))
    fit = joint_fit(earlier, deviations=DEVIATIONS**-2, common=np.full(P, OPEN))
    rows = (
        (*old, dummies(batch, 1 if leveled else 2)),
        (*new, dummies(wave, 0 if leveled else 2)),
    )
    return fit, rows, earlier, sums


def without_first(sums):
    """Return sums in which the first batch has no level."""
    return JointSums(
        sums.gram, sums.moment, sums.squares, sums.count,
        sums.crossed[:, 1:], sums.level_moment[:, 1:], sums.level_count[:, 1:],
    )  # fmt: skip


@pytest.mark.parametrize("leveled", [False, True])
@pytest.mark.parametrize("drift", [0.02, 0.3, 4.0])
def test_posterior_and_evidence(leveled, drift):
    fit, rows, _, sums = both(leveled)
    made = drifted_fit(fit, range(K), sums, drift)
    law = {"deviations": DEVIATIONS, "open_sd": OPEN**-0.5}
    mean, covariance = oracle.posterior(*rows, K, drift=drift, **law)
    assert np.allclose(made.theta, mean, atol=1e-8)
    assert np.allclose(made.covariances(), covariance, atol=1e-8)
    other = drifted_fit(fit, range(K), sums, 0.1)
    logs = [oracle.log_density(*rows, K, drift=each, **law) for each in (drift, 0.1)]
    found = made.log_evidence(1.0) - other.log_evidence(1.0)
    assert found == pytest.approx(logs[0] - logs[1], abs=1e-3 if leveled else 1e-7)


@pytest.mark.parametrize("leveled", [False, True])
def test_evidence_without_history_is_on_the_same_scale(leveled):
    """Its law has a common part of its own; only what both laws do not say is left out."""
    fit, rows, _, sums = both(leveled)
    alone = without_first(sums) if leveled else sums
    x, actions, y, levels = rows[1]
    found = evidence_alone(alone, 1.0, 0, leveled=leveled)
    found -= drifted_fit(fit, range(K), sums, 0.2).log_evidence(1.0)
    grid = [(t0, t1) for t0 in (0.25, 0.5, 1.0) for t1 in (0.16, 0.35)]
    wide = 1e4
    common = np.full(P, 1.0)
    common[0] = wide if leveled else OPEN**-0.5

    def density(pair):
        deviations = np.full(P, pair[1])
        deviations[0] = pair[0]
        X = pooling.design(x, actions, K, levels[:, 1:] if leveled else ())
        free = levels.shape[1] - 1 if leveled else 0
        prior = np.concatenate([common**2, np.full(free, wide**2), np.tile(deviations**2, K)])
        covariance = (X * prior) @ X.T + np.eye(len(X))
        return -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))

    law = {"deviations": DEVIATIONS, "open_sd": OPEN**-0.5, "drift": 0.2, "wide": wide}
    expected = max(density(pair) for pair in grid) - oracle.log_density(*rows, K, **law)
    # The scales of the best pair are chosen with a weak prior of theirs.
    assert found == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize("leveled", [False, True])
def test_without_drift_it_is_the_regression_on_both(leveled):
    fit, _, earlier, sums = both(leveled)
    made = drifted_fit(fit, range(K), sums, 0.0)
    if leveled:
        wide = [_widened(earlier, 0, 3), _widened(sums, 1, 3)]
        merged = wide[0].plus(wide[1])
    else:
        merged = earlier.plus(sums)
    expected = joint_fit(merged, deviations=DEVIATIONS**-2, common=np.full(P, OPEN))
    assert np.allclose(made.theta, expected.theta, atol=1e-10)
    assert np.allclose(made.covariances(), expected.covariances(), atol=1e-10)


def _widened(sums, before, total):
    """Return sums with columns of zeros for the levels of the other experiment."""

    def padded(values):
        shape = list(values.shape)
        shape[1] = total
        made = np.zeros(shape)
        made[:, before : before + values.shape[1]] = values
        return made

    return JointSums(
        sums.gram, sums.moment, sums.squares, sums.count,
        padded(sums.crossed), padded(sums.level_moment), padded(sums.level_count),
    )  # fmt: skip


def test_with_a_huge_drift_nothing_is_left_of_the_history():
    fit, _, _, sums = both(False)
    alone = Statistics(sums.gram, sums.moment, sums.squares, sums.count.astype(int))
    made = drifted_fit(fit, range(K), sums, 1e6)
    assert np.allclose(made.theta, least_squares(alone).theta, atol=1e-9)


def test_levels_are_those_of_the_new_experiment():
    fit, _, _, sums = both(True)
    made = levelled(drifted_fit(fit, range(K), sums, 0.1), 0)
    again = drifted_fit(fit, range(K), sums, 0.1)
    assert np.allclose(made.theta[:, 0], again.theta[:, 0] + again.levels[0])
    assert np.allclose(made.theta[:, 1:], again.theta[:, 1:])
    # The variance of a constant is that of the sum of two numbers.
    first = again.carried[0, 0].copy()
    first[-2] += 1.0
    assert made.covariances()[0, 0, 0] == pytest.approx(
        again.inner[0, 0, 0] + first @ again.outer @ first
    )


def test_average():
    """It has the mean and the covariance of draws from its parts."""
    fit, _, _, sums = both(False)
    parts = [drifted_fit(fit, range(K), sums, drift) for drift in (0.01, 1.0)]
    made = averaged([WeighedFit(0.3, parts[0]), WeighedFit(0.7, parts[1])], 4.0)
    theta = 0.3 * parts[0].theta + 0.7 * parts[1].theta
    assert np.allclose(made.fit.theta, theta)
    spread = np.zeros((K, P, P))
    for weight, part in zip((0.3, 0.7), parts, strict=True):
        apart = part.theta - theta
        spread += weight * (4.0 * part.covariances() + apart[:, :, None] * apart[:, None, :])
    assert np.allclose(4.0 * made.fit.covariances(), spread)
    assert [each.weight for each in made.grid] == pytest.approx([0.3, 0.7])
    assert weights_of([-1000.0, -1000.0 + np.log(3)]) == pytest.approx([0.25, 0.75])


def test_noise_of_both():
    """One regression per experiment, action and level: the residuals' squares over their number."""
    _, rows, earlier, sums = both(True)
    left, freedom = 0.0, 0
    for x, actions, y, levels in rows:
        X = pooling.design(x, actions, K)[:, P:]
        X = np.hstack([X, levels])
        solved, _, rank, _ = np.linalg.lstsq(X, y, rcond=None)
        left += np.sum((y - X @ solved) ** 2)
        freedom += len(y) - rank
    assert joint_noise([earlier, without_first(sums)]) == pytest.approx(left / freedom)


@pytest.mark.parametrize("leveled", [False, True])
def test_earlier_regression(leveled):
    """Its penalty is the likeliest one, by dense normal laws of the outcomes."""
    _, rows, earlier, _ = both(leveled)
    x, actions, y, levels = rows[0]
    fit, penalty = likeliest_ridge(earlier, constant=0)
    X = pooling.design(x, actions, K, levels if leveled else ())
    variance = joint_noise([earlier])

    def density(tried):
        prior = np.full(X.shape[1], variance / tried)
        prior[:P] = 4 * variance / tried
        prior[0] = 1e8
        prior[P : X.shape[1] - K * P] = 1e8
        covariance = (X * prior) @ X.T + variance * np.eye(len(X))
        return -0.5 * (np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))

    size = np.mean(x**2)
    tried = [size * 10 ** (power / 2) for power in range(-4, 5)]
    assert penalty == pytest.approx(max(tried, key=density))
    common = np.full(P, penalty / 4)
    common[0] = 0.0
    theta, _ = pooling.joint_ridge(
        x, actions, y, K, common=common, deviations=np.full(P, penalty),
        levels=levels if leveled else (),
    )  # fmt: skip
    assert np.allclose(fit.theta, theta, atol=1e-8)
